// What the progress threads tell each other beside the messages themselves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme::comm {

struct ControlMessage {
  enum class Kind : std::uint32_t {
    kReady,     ///< the receive `sequence` of `stream` was started, for `bytes`
    kComing,    ///< the send `sequence` of `stream` is moving
    kMismatch,  ///< the send `sequence` of `stream` has `bytes`, not what was announced
    kFailed,    ///< a Cause: `rank`, ending `state`, weight `sequence`, `text`; passed on by those
                ///< who heard of it
    kAsk,       ///< what do you wait for? question number `sequence`
    kAnswer,    ///< to question `sequence`: `state`, `rank`, `text` as in RankState
    kClosing,   ///< the sender has ended its part of a good run
    kLeaving,   ///< the sender has said why it gives up and is about to exit
  };

  Kind kind{};
  Stream stream{};
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
  int state = 0;
  int rank = 0;
  std::string text{};  ///< cut to what fits
};

/// The size of the largest encoded message.
inline constexpr std::size_t kLargestControlMessage = 2048;

std::vector<std::byte> encode(const ControlMessage& message);
ControlMessage decode(ConstBytes bytes);

}  // namespace trireme::comm
