// SPDX-License-Identifier: Apache-2.0
#include "schedule/workloads.h"

#include "trireme/schedule/search.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme::schedule {
namespace {

double bound_of(int ranks, int per_rank, int micro_batches, double room) {
  return bound(Even{.size = {ranks, per_rank, micro_batches}, .room = room}.workload()).count();
}

TEST(Bounds, AreTheWayToTheLastRankAndItsWorkWithMemoryForIt) {
  // (p - 1) f / v + m (f + b + w): what ZB-V and, with one chunk, ZB-H1 reach.
  EXPECT_NEAR(bound_of(8, 2, 24, 8), 75.5, 1e-9);
  EXPECT_NEAR(bound_of(8, 1, 24, 8), 79, 1e-9);
  EXPECT_NEAR(bound_of(4, 2, 8, 4), 25.5, 1e-9);
}

TEST(Bounds, CountWaitsForTheFirstGradientAndBehindTheLastForward) {
  // The last rank's first backward may begin at 8, its last forward ends 12 before the end; what it
  // can run there are M forwards, and M backwards with their W's.
  for (const double room : {6.0, 5.0, 4.0})
    EXPECT_NEAR(bound_of(8, 2, 24, room), 72 + (11.5 - room) + std::max(0.0, 12 - 2 * room), 1e-9);
}

TEST(Bounds, AreTheChainOfOneMicroBatch) {
  EXPECT_NEAR(bound_of(4, 2, 1, 8), 4 + 4 + 0.5, 1e-9);
  Workload workload = Even{.size = {2, 1, 1}}.workload();
  workload.messages = {Seconds(10)};
  EXPECT_NEAR(bound(workload).count(), 2 + 2 + 1 + 20, 1e-9);
  workload.chunks[0].ahead = Seconds(0.5);
  EXPECT_NEAR(bound(workload).count(), 2 + 2 + 1 + 20 - 0.5, 1e-9);
}

TEST(Bounds, AreMemoryTimesTime) {
  // One micro-batch at a time on the first of two ranks: F, F, B, B, W each.
  const Workload workload = Even{.size = {2, 1, 10}, .room = 1}.workload();
  EXPECT_NEAR(bound(workload).count(), 50, 1e-9);
}

TEST(Bounds, AreInfiniteWhereOneMicroBatchDoesNotFit) {
  EXPECT_TRUE(std::isinf(bound_of(2, 2, 3, 0.99)));
  EXPECT_FALSE(std::isinf(bound_of(2, 2, 3, 1)));
  Workload workload = Even{.size = {2, 2, 3}, .room = 1}.workload();
  workload.chunks[3].backward_more = Bytes(1);
  EXPECT_TRUE(std::isinf(bound(workload).count()));  // on rank 0, with chunk 0 held
  workload.chunks[3].backward_more = Bytes(0);
  workload.chunks[0].backward_more = Bytes(1 << 19);
  EXPECT_FALSE(std::isinf(bound(workload).count()));  // chunk 3 is released by then
  workload.room.clear();
  workload.chunks[3].backward_more = Bytes(std::int64_t{1} << 60);
  EXPECT_FALSE(std::isinf(bound(workload).count()));
}

}  // namespace
}  // namespace trireme::schedule
