// SPDX-License-Identifier: Apache-2.0
#include "trireme/schedule/search.h"

#include "schedule/exhaustive.h"
#include "schedule/workloads.h"
#include "support/trials.h"

#include "trireme/core/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trireme::schedule {
namespace {

/// Up to 36 passes.
Workload tiny(unsigned seed) {
  Drawn drawn(seed);
  constexpr Size kSizes[] = {{2, 1, 3}, {2, 2, 2}, {2, 2, 2}, {2, 2, 3}, {3, 1, 3},
                             {3, 2, 1}, {2, 3, 1}, {3, 2, 2}, {2, 4, 1}, {2, 3, 2}};
  const Size size = kSizes[drawn.from(0, 9)];
  return drawn_workload(size, drawn);
}

struct Tally {
  int instances = 0, infeasible = 0, optimal = 0;
  double sum = 0, worst = 1;
};

/// Compares an order found with the fastest of all.
void look_at(const Workload& workload, unsigned seed, Tally& tally) {
  const auto found = search(workload, {.rules = 2000});
  const Seconds least = bound(workload);
  if (!found) {
    EXPECT_TRUE(std::isinf(least.count())) << seed;
    EXPECT_FALSE(least_step(workload, std::numeric_limits<long>::max())) << seed;
    ++tally.infeasible;
    return;
  }
  ++tally.instances;
  EXPECT_EQ(found->bound, least);
  require_sound(found->order, workload.placement);
  EXPECT_EQ(micro_batches_of(found->order, workload.placement), workload.micro_batches);
  const auto judgement = judge(workload, found->order);
  ASSERT_TRUE(judgement) << seed;
  EXPECT_TRUE(judgement->fits) << seed;
  EXPECT_EQ(static_cast<double>(judgement->step), found->step.count()) << seed;
  // What takes less than the order found, if anything does, is the optimum.
  const long optimum = least_step(workload, judgement->step).value_or(judgement->step);
  EXPECT_LE(least.count(), static_cast<double>(optimum) * (1 + 1e-12)) << seed;
  const double ratio = static_cast<double>(judgement->step) / static_cast<double>(optimum);
  if (judgement->step == optimum) ++tally.optimal;
  tally.sum += ratio;
  tally.worst = std::max(tally.worst, ratio);
}

TEST(SearchedOrders, AreNearlyAlwaysTheFastestOnesOfTinyPipelines) {
  const int count = trials(800);
  Tally tally;
  for (unsigned seed = 1; seed <= static_cast<unsigned>(count); ++seed)
    look_at(tiny(seed), seed, tally);
  RecordProperty("optimal", tally.optimal);
  RecordProperty("instances", tally.instances);
  RecordProperty("mean", concat(tally.sum / tally.instances));
  RecordProperty("worst", concat(tally.worst));
  EXPECT_GE(tally.instances, trials(600));
  EXPECT_GE(tally.infeasible, trials(80));
  EXPECT_GE(tally.optimal * 100, tally.instances * 95);
  EXPECT_LE(tally.sum, tally.instances * 1.001);
  EXPECT_LE(tally.worst, 1.05);
}

TEST(SearchedOrders, FitAndRunWhereChunksShareStreams) {
  for (unsigned seed = 1; seed <= static_cast<unsigned>(trials(60)); ++seed) {
    Drawn drawn(seed);
    const Workload workload =
        drawn_workload({drawn.from(2, 5), drawn.from(2, 5), drawn.from(3, 9)}, drawn);
    const auto found = search(workload, {.rules = 100, .moves_per_pass = 5});
    ASSERT_EQ(found.has_value(), !std::isinf(bound(workload).count()));
    if (!found) continue;
    require_sound(found->order, workload.placement);
    const auto judgement = judge(workload, found->order);
    ASSERT_TRUE(judgement) << seed;
    EXPECT_TRUE(judgement->fits) << seed;
    EXPECT_EQ(static_cast<double>(judgement->step), found->step.count()) << seed;
    EXPECT_GE(found->step.count() * (1 + 1e-9), found->bound.count()) << seed;
  }
}

double searched(const Even& even, const SearchEffort& effort) {
  return search(even.workload(), effort)->step.count();
}

// What zero bubble schedules reach (Qi et al. 2024, Pipeline Parallelism with Controllable Memory):
// ZB-V with the memory of 1F1B, V-Half and blocks found by their search with less.
TEST(SearchedOrders, AreAsFastAsKnownSchedulesOfEqualTimes) {
  const auto eight = [](double room) { return Even{.size = {8, 2, 24}, .room = room}; };
  const SearchEffort lists{.rules = 0, .moves_per_pass = 0};
  EXPECT_LE(searched(eight(8), lists), 75.5 + 1e-9);
  EXPECT_LE(searched(eight(5), lists), 80.5 + 1e-9);
  EXPECT_LE(searched(eight(4), lists), 83.5 + 1e-9);
  EXPECT_LE(searched(eight(6), {}), 77.5 + 1e-9);
  const auto four = [](int micro_batches, double room) {
    return Even{.size = {4, 2, micro_batches}, .room = room};
  };
  EXPECT_LE(searched(four(8, 4), lists), 25.5 + 1e-9);
  EXPECT_LE(searched(four(8, 2), lists), 29.5 + 1e-9);
  EXPECT_LE(searched(four(24, 4), lists), 73.5 + 1e-9);
  EXPECT_LE(searched(four(24, 2), lists), 77.5 + 1e-9);
}

TEST(SearchedOrders, AreTheSameEachTime) {
  Drawn drawn(3);
  const Workload workload = drawn_workload({4, 4, 8}, drawn);
  const SearchEffort effort{.rules = 200, .moves_per_pass = 5};
  const auto once = search(workload, effort);
  ASSERT_TRUE(once);
  EXPECT_EQ(search(workload, effort)->order, once->order);
}

TEST(SearchedOrders, AreNoSlowerThanThoseGiven) {
  const Workload workload =
      Even{.size = {8, 2, 24}, .room = 4.3, .backward = 1.09, .weights = 0.91}.workload();
  const SearchEffort brief{.rules = 0, .moves_per_pass = 0};
  const auto without = search(workload, brief);
  const auto good = search(workload, {.rules = 1000, .moves_per_pass = 5});
  ASSERT_LT(good->step, without->step);
  EXPECT_EQ(search(workload, brief, {good->order})->step, good->step);
  EXPECT_EQ(search(workload, brief, {good->order})->order, good->order);
  // Those that do not fit, do not train, or wait in a circle are left out.
  Workload small = workload;
  for (Bytes& room : small.room) room = Bytes(2 << 20);
  EXPECT_EQ(search(small, brief, {good->order})->step, search(small, brief)->step);
  Order forwards = good->order;
  for (auto& passes : forwards)
    std::erase_if(passes, [](Pass pass) { return pass.kind != Pass::Kind::kForward; });
  EXPECT_EQ(search(workload, brief, {forwards})->step, without->step);
}

TEST(SearchedOrders, BeginWithWholeBackwardsToo) {
  Workload workload = Even{.size = {3, 1, 6}, .room = 3}.workload();
  Order order;
  for (int rank = 0; rank < 3; ++rank) {
    std::string text;
    for (int i = 0; i < 3 - rank; ++i) text += concat("F", rank, " ");
    for (int i = 0; i < 3 + rank; ++i) text += concat("B", rank, " F", rank, " ");
    for (int i = 0; i < 3 - rank; ++i) text += concat("B", rank, " ");
    order.push_back(parse_passes(text, 100));
  }
  require_sound(order, workload.placement);
  const auto found = search(workload, {.rules = 0, .moves_per_pass = 20, .starts = 0}, {order});
  EXPECT_LE(found->step, timed(workload, order)->step);
  EXPECT_EQ(found->step, Seconds(20));  // ZB-H1
}

}  // namespace
}  // namespace trireme::schedule
