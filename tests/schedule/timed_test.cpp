// SPDX-License-Identifier: Apache-2.0
#include "schedule/exhaustive.h"
#include "schedule/workloads.h"
#include "support/trials.h"

#include "trireme/core/error.h"
#include "trireme/schedule/search.h"

#include <gtest/gtest.h>

#include <string>

namespace trireme::schedule {
namespace {

Order parsed(const std::vector<std::string>& ranks) {
  Order order;
  for (const std::string& rank : ranks) order.push_back(parse_passes(rank, 1000));
  return order;
}

std::vector<double> counts(const std::vector<Seconds>& times) {
  std::vector<double> result;
  for (const Seconds time : times) result.push_back(time.count());
  return result;
}

/// One chunk on each of two ranks: F 2, I 3, W 4; a message takes 1.
Workload two_ranks(int micro_batches) {
  const ChunkCosts costs{.forward = Seconds(2),
                         .backward = Seconds(3),
                         .weights = Seconds(4),
                         .kept = Bytes(10),
                         .pending = Bytes(6),
                         .forward_more = Bytes(1),
                         .backward_more = Bytes(3)};
  return {.placement = one_each(2),
          .micro_batches = micro_batches,
          .chunks = {costs, costs},
          .messages = {Seconds(1)}};
}

TEST(TimedOrders, PassesBeginWhenMessagesAreThere) {
  const auto times = timed(two_ranks(2), parsed({"F0*2 I0 W0 B0", "F1 I1 F1 W1 B1"}));
  ASSERT_TRUE(times);
  EXPECT_EQ(counts(times->begins[0]), (std::vector<double>{0, 2, 9, 12, 22}));
  EXPECT_EQ(counts(times->begins[1]), (std::vector<double>{3, 5, 8, 10, 14}));
  EXPECT_EQ(times->step, Seconds(29));
  // Two kept and what a backward needs; one kept, one pending and what the forward needs.
  EXPECT_EQ(times->peaks, (std::vector<Bytes>{Bytes(23), Bytes(17)}));
}

TEST(TimedOrders, BackwardsRunAheadOfTheirMessages) {
  Workload workload = two_ranks(1);
  workload.chunks[0].ahead = Seconds(2);
  const auto times = timed(workload, parsed({"F0 B0", "F1 I1 W1"}));
  ASSERT_TRUE(times);
  EXPECT_EQ(counts(times->begins[0]), (std::vector<double>{0, 7}));  // the gradient comes at 9
  workload.chunks[0].ahead = Seconds(3);
  workload.messages[0] = Seconds(0);
  EXPECT_EQ(timed(workload, parsed({"F0 B0", "F1 I1 W1"}))->begins[0][1], Seconds(4));
}

TEST(TimedOrders, RanksWaitForRoomInAStream) {
  Workload workload = two_ranks(3);
  workload.capacity = 1;
  const Order order = parsed({"F0*3 B0*3", "F1 B1 F1 B1 F1 B1"});
  // The second forward ends at 4; the third begins once the message of the first is taken, at 3,
  // and the first backward once that of the second is taken, at 12.
  const auto times = timed(workload, order);
  ASSERT_TRUE(times);
  EXPECT_EQ(counts(times->begins[1]), (std::vector<double>{3, 5, 12, 14, 21, 23}));
  EXPECT_EQ(counts(times->begins[0]), (std::vector<double>{0, 2, 4, 13, 22, 31}));
}

TEST(TimedOrders, WaitInACircleForMessagesOrRoom) {
  EXPECT_FALSE(timed(two_ranks(2), parsed({"F0 B0 F0 B0", "F1*2 B1*2"})));
  // Rank 0 goes on behind its fourth F0 once the second message is taken, by an F1 that stands
  // behind an F3, which waits for an F2 of rank 0.
  const Order order = parsed({"F0*4 F2*4 B2*4 B0*4", "F1 F3 F1 F3 F1 F3 F1 F3 B3*4 B1*4"});
  Workload workload = two_ranks(4);
  workload.placement = {0, 1, 0, 1};
  workload.chunks.assign(4, workload.chunks[0]);
  workload.messages.assign(3, Seconds(0));
  EXPECT_FALSE(timed(workload, order));
  workload.capacity = 3;
  EXPECT_TRUE(timed(workload, order));
}

/// Passes of a rank in a random order that is sound.
std::vector<Pass> shuffled(const Workload& workload, int rank, Drawn& drawn) {
  struct Left {
    int chunk, forwards, backwards, weights;
  };
  std::vector<Left> left;
  for (std::size_t c = 0; c < workload.placement.size(); ++c)
    if (workload.placement[c] == rank)
      left.push_back({static_cast<int>(c), workload.micro_batches, workload.micro_batches,
                      workload.micro_batches});
  std::vector<Pass> passes;
  while (true) {
    std::vector<Pass> next;
    for (const Left& one : left) {
      if (one.forwards > 0) next.push_back({Pass::Kind::kForward, one.chunk});
      if (one.backwards > one.forwards) next.push_back({Pass::Kind::kBackwardInput, one.chunk});
      if (one.backwards > one.forwards && one.weights == one.backwards)
        next.push_back({Pass::Kind::kBackward, one.chunk});
      if (one.weights > one.backwards) next.push_back({Pass::Kind::kBackwardWeights, one.chunk});
    }
    if (next.empty()) return passes;
    const Pass pass =
        next[static_cast<std::size_t>(drawn.from(0, static_cast<int>(next.size()) - 1))];
    passes.push_back(pass);
    for (Left& one : left) {
      if (one.chunk != pass.chunk) continue;
      one.forwards -= pass.kind == Pass::Kind::kForward ? 1 : 0;
      one.backwards -= is_backward(pass.kind) ? 1 : 0;
      one.weights -= gives_weights(pass.kind) ? 1 : 0;
    }
  }
}

TEST(TimedOrders, RunAsRanksThatTakeTurnsDo) {
  int in_circles = 0;
  int fitting = 0;
  const int count = trials(4000);
  for (int i = 0; i < count; ++i) {
    Drawn drawn(static_cast<unsigned>(i));
    const Size size{drawn.from(1, 3), drawn.from(1, 3), drawn.from(1, 3)};
    const Workload workload = drawn_workload(size, drawn);
    Order order;
    for (int rank = 0; rank < size.ranks; ++rank) order.push_back(shuffled(workload, rank, drawn));
    require_sound(order, workload.placement);
    const auto times = timed(workload, order);
    const auto judgement = judge(workload, order);
    ASSERT_EQ(times.has_value(), judgement.has_value()) << i;
    if (!times) {
      ++in_circles;
      continue;
    }
    EXPECT_EQ(times->step.count(), static_cast<double>(judgement->step)) << i;
    EXPECT_EQ(fits(workload, *times), judgement->fits) << i;
    if (!judgement->fits) continue;
    ++fitting;
    EXPECT_GE(times->step.count() * (1 + 1e-12), bound(workload).count()) << i;
  }
  EXPECT_GE(in_circles, count / 10);
  EXPECT_GE(fitting, count / 10);
}

}  // namespace
}  // namespace trireme::schedule
