// What two ranks tell each other about their messages over NCCL, over the other transport: which
// receives are ready and which sends were queued. A send is queued on the device only when its
// receive is ready, and receives in the order in which their sends were.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>

namespace trireme::comm {

struct Signal {
  enum class Kind : std::uint8_t {
    kReady,   ///< the next receive of `stream` is ready: its buffer may be written
    kQueued,  ///< the next send of `stream` was queued on the sender's device
    kEnd,     ///< nothing follows
  };
  Kind kind = Kind::kReady;
  Stream stream = Stream::kOutputs;
  std::uint64_t size = 0;  ///< of a queued message, in bytes
};

/// The signals exchanged with one other rank. For the channel's own thread.
class Signals {
 public:
  /// Over Stream::kSignals of `control`, which must outlive it and use that stream for nothing
  /// else.
  Signals(Channel& control, int peer);

  int peer() const { return peer_; }
  void send(const Signal& signal);
  /// The next signal before the end, if one has come.
  std::optional<Signal> take();
  /// Whether none will come, for a reason that wait() throws.
  bool has_failed() const { return has_failed_; }
  /// Blocks until take() gives one. Throws as Transfer::wait does.
  void wait(std::string_view what) { next_->wait(what); }
  /// Both ranks call it, with no message in progress, then close().
  void send_end() { send({.kind = Signal::Kind::kEnd}); }
  /// Waits for the other rank's end.
  void close();

 private:
  struct Sent {
    std::unique_ptr<Signal> signal;
    std::unique_ptr<Transfer> transfer;
  };
  void expect_next();

  Channel& control_;
  int peer_;
  std::deque<Sent> sent_;  ///< until they have left
  Signal received_;
  std::unique_ptr<Transfer> next_;
  bool has_ended_ = false, has_failed_ = false;
};

}  // namespace trireme::comm
