// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/waits.h"

#include "trireme/comm/cause.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace trireme::comm {
namespace {

/// Maximum sleep of a wait before it polls for a stop request again.
constexpr double kStopPollSeconds = 0.05;

std::string describe(const RankState& state);

std::string rank_list(std::span<const int> ranks);

}  // namespace

WaitEnd wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                   const ChannelOptions& options, const std::function<bool()>& ended) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  while (!ended()) {
    if (options.stop_requested) {
      // Not under the lock: the caller's function may take long, or use the channel.
      lock.unlock();
      const bool stop = options.stop_requested();
      lock.lock();
      if (ended()) break;
      if (stop) return WaitEnd::kStopped;
    }
    const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
    const double left = options.timeout.count() - waited;
    if (left <= 0) return WaitEnd::kTimedOut;
    changed.wait_for(lock, std::chrono::duration<double>(std::min(left, kStopPollSeconds)));
  }
  return WaitEnd::kEnded;
}

std::string explain_wait(int rank, int peer, const std::function<RankState(int)>& state_of) {
  std::vector<std::string> links;
  std::vector<int> seen{rank};
  for (int at = peer;;) {
    if (std::find(seen.begin(), seen.end(), at) != seen.end()) {
      links.push_back(concat("a deadlock: the waits lead back to rank ", at));
      break;
    }
    seen.push_back(at);
    const RankState state = state_of(at);
    links.push_back(concat("rank ", at, ' ', describe(state)));
    if (state.kind != RankState::Kind::kWaiting) break;
    at = state.peer;
  }
  return join(links, "; ");
}

CommError waited_in_vain(int rank, Seconds timeout, int peer, std::string_view what,
                         std::string_view why) {
  return CommError(concat("rank ", rank, ": waited ", timeout.count(), " s for rank ", peer, ": ",
                          what, " (", why, ")"));
}

CommError closed_in_vain(int rank, Seconds timeout, std::span<const int> missing) {
  return CommError(concat("rank ", rank, ": waited ", timeout.count(), " s for ",
                          missing.empty() ? "its last messages to leave" : rank_list(missing),
                          ": close"));
}

Interrupted stopped(int rank, int peer, std::string_view what) {
  return Interrupted(
      concat("rank ", rank, ": stopped on request while waiting for rank ", peer, ": ", what));
}

std::string sizes_differ_at_receiver(int sender, std::size_t sent, std::size_t expected) {
  return concat("rank ", sender, " sent ", sent, " B where ", expected, " B were expected");
}

std::string sizes_differ_at_sender(int receiver, std::size_t sent, std::size_t expected) {
  return concat("rank ", receiver, " expected ", expected, " B where ", sent, " B were sent");
}

std::string stream_given_up(int peer) {
  return concat("an earlier transfer of this stream with rank ", peer, " was given up");
}

void throw_transfer_failed(int rank, int peer, const std::string& problem, std::string_view what) {
  const std::string text = concat("rank ", rank, ": ", problem, ": ", what);
  if (problem == stream_given_up(peer)) throw GivenUpError(text);
  throw CommError(text);
}

namespace {

std::string describe(const RankState& state) {
  switch (state.kind) {
    case RankState::Kind::kSilent:
      return "does not answer: it is stuck, stopped or dead";
    case RankState::Kind::kBusy:
      return "waits for no other rank: it computes, or is stuck in its own work";
    case RankState::Kind::kWaiting:
      return concat("itself waits for rank ", state.peer, ": ", state.what);
    case RankState::Kind::kEnded:
      return "has finished its part";
  }
  return "";
}

std::string rank_list(std::span<const int> ranks) {
  std::vector<std::string> names;
  for (const int rank : ranks) names.push_back(concat("rank ", rank));
  return join(names, ", ");
}

}  // namespace
}  // namespace trireme::comm
