// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/waits.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace trireme::comm {
namespace {

using Kind = RankState::Kind;

/// The explanation of rank 0's wait for rank 1 when the ranks are in these states.
std::string explained(const std::map<int, RankState>& states) {
  return explain_wait(0, 1, [&](int rank) { return states.at(rank); });
}

TEST(ExplainWait, FollowsTheWaitsToTheRankThatWaitsForNobody) {
  EXPECT_EQ(explained({{1, {Kind::kWaiting, 3, "2:receive_gradient 5"}},
                       {3, {Kind::kWaiting, 2, "3:receive_gradient 7"}},
                       {2, {Kind::kSilent, 0, ""}}}),
            "rank 1 itself waits for rank 3: 2:receive_gradient 5; rank 3 itself waits for rank 2: "
            "3:receive_gradient 7; rank 2 does not answer: it is stuck, stopped or dead");
}

TEST(ExplainWait, NamesADeadlock) {
  EXPECT_EQ(explained({{1, {Kind::kWaiting, 0, "1:receive_input 2"}}}),
            "rank 1 itself waits for rank 0: 1:receive_input 2; a deadlock: the waits lead back to "
            "rank 0");
}

TEST(ExplainWait, EndsInACycleThatDoesNotHoldTheAskingRank) {
  EXPECT_EQ(explained({{1, {Kind::kWaiting, 2, "a"}}, {2, {Kind::kWaiting, 1, "b"}}}),
            "rank 1 itself waits for rank 2: a; rank 2 itself waits for rank 1: b; a deadlock: the "
            "waits lead back to rank 1");
}

TEST(ExplainWait, TellsARankThatComputesFromOneThatHasEnded) {
  EXPECT_EQ(explained({{1, {Kind::kBusy, 0, ""}}}),
            "rank 1 waits for no other rank: it computes, or is stuck in its own work");
  EXPECT_EQ(explained({{1, {Kind::kEnded, 0, ""}}}), "rank 1 has finished its part");
}

TEST(WaitErrors, NameTheRanksTheWaitAndTheSeconds) {
  EXPECT_STREQ(waited_in_vain(1, Seconds(60), 2, "3:receive_input 4", "why").what(),
               "rank 1: waited 60 s for rank 2: 3:receive_input 4 (why)");
  EXPECT_STREQ(closed_in_vain(0, Seconds(2.5), std::vector<int>{2, 3}).what(),
               "rank 0: waited 2.5 s for rank 2, rank 3: close");
  EXPECT_STREQ(stopped(1, 2, "3:receive_input 4").what(),
               "rank 1: stopped on request while waiting for rank 2: 3:receive_input 4");
}

TEST(WaitUntil, AsksForAStopWithoutHoldingTheLock) {
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  const ChannelOptions options{Seconds(30), [&] {
                                 const bool was_free = mutex.try_lock();
                                 if (was_free) mutex.unlock();
                                 return was_free;
                               }};

  EXPECT_EQ(wait_until(lock, changed, options, [] { return false; }), WaitEnd::kStopped);
  EXPECT_TRUE(lock.owns_lock());
}

TEST(WaitUntil, ReturnsAtOnceWhenTheEndHasComeBefore) {
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);

  EXPECT_EQ(wait_until(lock, changed, {Seconds(0), {}}, [] { return true; }), WaitEnd::kEnded);
  EXPECT_EQ(wait_until(lock, changed, {Seconds(0), {}}, [] { return false; }), WaitEnd::kTimedOut);
}

}  // namespace
}  // namespace trireme::comm
