// Waiting, common to all transports: the wait loop, and the messages with which a rank that timed
// out says which rank is at fault.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/core/error.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace trireme::comm {

enum class WaitEnd { kEnded, kTimedOut, kStopped };

/// Blocks until `ended` holds (asked under the lock, whenever `changed` is notified), the timeout
/// is over, or a stop is requested (asked without the lock, about every 50 ms).
WaitEnd wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                   const ChannelOptions& options, const std::function<bool()>& ended);

/// What a rank is doing, as seen by the transport.
struct RankState {
  enum class Kind {
    kSilent,   ///< does not answer
    kBusy,     ///< waits for no other rank
    kWaiting,  ///< waits for `peer`: `what`
    kEnded,    ///< has finished
  };
  Kind kind = Kind::kSilent;
  int peer = 0;
  std::string what;
};

/// Why the wait of `rank` for `peer` timed out: follows the chain of waits to a rank that waits for
/// no other, or back to `rank` (deadlock). "rank 2 itself waits for rank 3: 3:receive_input 4; rank
/// 3 does not answer: it is stuck, stopped or dead".
std::string explain_wait(int rank, int peer, const std::function<RankState(int)>& state_of);

/// "rank 1: waited 60 s for rank 2: WHAT (WHY)".
CommError waited_in_vain(int rank, Seconds timeout, int peer, std::string_view what,
                         std::string_view why);

/// The same for a close(): "rank 1: waited 60 s for rank 2, rank 3: close".
CommError closed_in_vain(int rank, Seconds timeout, std::span<const int> missing);

/// "rank 1: stopped while waiting for rank 2: WHAT".
Interrupted stopped(int rank, int peer, std::string_view what);

/// "rank 2 sent 12 B where 8 B were expected" for the receiver, "rank 1 expected 8 B where 12 B
/// were sent" for the sender.
std::string sizes_differ_at_receiver(int sender, std::size_t sent, std::size_t expected);
std::string sizes_differ_at_sender(int receiver, std::size_t sent, std::size_t expected);

/// The problem of later transfers of a stream after one of them was withdrawn.
std::string stream_given_up(int peer);

/// "rank 1: PROBLEM: WHAT", a GivenUpError where the problem is that of stream_given_up().
[[noreturn]] void throw_transfer_failed(int rank, int peer, const std::string& problem,
                                        std::string_view what);

}  // namespace trireme::comm
