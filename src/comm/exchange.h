// Message matching of the local transport: one pair of queues per sender, receiver and stream, in
// which a send waits for its receive or vice versa. The side that starts second copies, directly
// from buffer to buffer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/cause.h"
#include "trireme/comm/waits.h"

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::comm {

/// One side of a message: a send or a receive of `rank`.
struct LocalMessage {
  enum class State { kWaiting, kCopying, kDone, kFailed };

  int rank = 0;
  int peer = 0;
  bool outgoing = false;
  Stream stream{};
  std::byte* data = nullptr;  ///< never written through by a send
  std::size_t size = 0;
  State state = State::kWaiting;  ///< guarded by the exchange, as is `problem`
  std::string problem;
};

class Exchange {
 public:
  Exchange(int ranks, ChannelOptions options);

  int size() const { return static_cast<int>(ranks_.size()); }
  /// Matches the message with the other side's, or queues it until that one starts.
  void start(const std::shared_ptr<LocalMessage>& message);
  bool ended(const LocalMessage& message);
  void wait(const LocalMessage& message, std::string_view what);
  /// Returns when the message's buffer is no longer used.
  void withdraw(const std::shared_ptr<LocalMessage>& message);
  /// A rank gives up; the waits of all end.
  void fail(const Cause& cause);
  /// The cause, if a rank has given up.
  std::optional<Cause> cause();
  void close(int rank);
  /// The rank's body has returned or thrown.
  void leave(int rank);

 private:
  enum class RankPhase { kWorking, kClosed, kLeft };
  struct Rank {
    std::condition_variable changed;
    RankState state{RankState::Kind::kBusy, 0, ""};
    RankPhase phase = RankPhase::kWorking;
  };
  /// Messages of one sender, receiver and stream without a counterpart yet: at most one of the two
  /// queues is non-empty.
  struct MatchQueues {
    std::deque<std::shared_ptr<LocalMessage>> sends;
    std::deque<std::shared_ptr<LocalMessage>> receives;
    bool given_up = false;
  };

  MatchQueues& queues_of(const LocalMessage& message);
  /// The counterpart, taken out of its queue; null if it was not started yet.
  std::shared_ptr<LocalMessage> take_match(const std::shared_ptr<LocalMessage>& message);
  /// The order is lost: messages in these queues, and all later ones, fail.
  void give_up(MatchQueues& queues);
  void end(LocalMessage& message, LocalMessage::State state);
  void notify_all();
  bool under_way(int rank);
  bool all_closed() const;
  std::vector<int> not_closed() const;
  std::optional<int> left_unclosed() const;

  ChannelOptions options_;
  std::mutex mutex_;  // guards all below, and the states of messages
  std::deque<Rank> ranks_;
  std::vector<MatchQueues> queues_;
  Outcome outcome_;
};

}  // namespace trireme::comm
