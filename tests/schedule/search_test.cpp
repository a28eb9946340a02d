// SPDX-License-Identifier: Apache-2.0
#include "trireme/schedule/search.h"

#include "schedule/exhaustive.h"
#include "support/trials.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace trireme::schedule {
namespace {

/// Whole random numbers that do not depend on the standard library.
class Drawn {
 public:
  explicit Drawn(unsigned seed) : random_(seed) {}
  int from(int least, int most) {
    return least + static_cast<int>(random_() % static_cast<unsigned>(most - least + 1));
  }
  bool one_in(int count) { return from(1, count) == 1; }

 private:
  std::mt19937 random_;
};

/// A pipeline of 2 or 3 ranks with up to 24 passes (27 where ranks do not share, 36 on two ranks).
Workload tiny(unsigned seed) {
  Drawn drawn(seed);
  constexpr int kShapes[][3] = {{2, 1, 3}, {2, 2, 2}, {2, 2, 2}, {2, 2, 3}, {3, 1, 3},
                                {3, 2, 1}, {2, 3, 1}, {3, 2, 2}, {2, 4, 1}, {2, 3, 2}};
  const auto& [ranks, per_rank, micro_batches] = kShapes[drawn.from(0, 9)];
  Workload made;
  made.placement = drawn.one_in(2) ? v_shaped(ranks, per_rank) : round_robin(ranks, per_rank);
  made.micro_batches = micro_batches;
  made.capacity = drawn.one_in(4) ? 1 : 2;
  const bool is_even = drawn.one_in(3);
  const bool has_messages = drawn.one_in(2);
  const bool has_ahead = drawn.one_in(4);
  const bool has_more = drawn.one_in(3);
  std::vector<std::int64_t> least(static_cast<std::size_t>(ranks));
  for (std::size_t c = 0; c < made.placement.size(); ++c) {
    ChunkCosts costs;
    if (is_even && c > 0) {
      costs = made.chunks[0];
    } else {
      costs.forward = Seconds(drawn.from(1, 9));
      costs.backward = Seconds(drawn.from(1, 9));
      costs.weights = Seconds(drawn.one_in(4) ? 0 : drawn.from(1, 9));
      if (has_ahead) costs.ahead = Seconds(drawn.from(0, static_cast<int>(costs.backward.count())));
      costs.kept = Bytes(drawn.from(1, 6));
      if (costs.is_split())
        costs.pending = Bytes(drawn.from(0, static_cast<int>(costs.kept.count())));
      if (has_more) costs.forward_more = Bytes(drawn.from(0, 2));
      if (has_more) costs.backward_more = Bytes(drawn.from(0, 3));
    }
    made.chunks.push_back(costs);
    least[static_cast<std::size_t>(made.placement[c])] += costs.kept.count();
    if (c + 1 < static_cast<std::size_t>(ranks * per_rank))
      made.messages.emplace_back(has_messages ? drawn.from(0, 4) : 0);
  }
  if (drawn.one_in(6)) return made;  // no limits
  for (const std::int64_t one : least)
    made.room.emplace_back(one * drawn.from(7, 4 + 6 * micro_batches) / 8 + drawn.from(0, 3));
  return made;
}

struct Tally {
  int instances = 0, infeasible = 0, optimal = 0;
  double sum = 0, worst = 1, of_bound = 0;
};

void look_at(const Workload& workload, const SearchEffort& effort, unsigned seed, Tally& tally) {
  const auto found = search(workload, effort);
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
  tally.of_bound += least.count() / static_cast<double>(optimum);
}

TEST(SearchedOrders, AreNearlyAlwaysTheFastestOnesOfTinyPipelines) {
  const int count = trials(400);
  Tally tally;
  for (unsigned seed = 1; seed <= static_cast<unsigned>(count); ++seed)
    look_at(tiny(seed), {}, seed, tally);
  std::cout << tally.instances << " instances, " << tally.infeasible << " infeasible ones, "
            << tally.optimal << " optimal, mean " << tally.sum / tally.instances << ", worst "
            << tally.worst << ", bound " << tally.of_bound / tally.instances << " of the optimum\n";
  EXPECT_GE(tally.instances, trials(200));
  EXPECT_GE(tally.optimal * 100, tally.instances * 95);
  EXPECT_LE(tally.sum, tally.instances * 1.001);
  EXPECT_LE(tally.worst, 1.05);
}

}  // namespace
}  // namespace trireme::schedule
