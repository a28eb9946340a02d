// Control messages between the progress threads, in addition to the messages themselves.
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
    kReady,     ///< receive number `sequence` of `stream` was started, for `bytes`
    kComing,    ///< send number `sequence` of `stream` is moving
    kMismatch,  ///< send number `sequence` of `stream` has `bytes`, not what kReady said
    kFailed,    ///< a Cause: `rank`, ending `state`, weight `sequence`, `text`; passed on by the
                ///< ranks that heard it
    kAsk,       ///< asks what the receiver waits for; question number `sequence`
    kAnswer,    ///< to question `sequence`: `state`, `rank`, `text` as in RankState
    kClosing,   ///< the sender has finished a successful run
    kLeaving,   ///< the sender has reported why it gives up and is about to exit
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
