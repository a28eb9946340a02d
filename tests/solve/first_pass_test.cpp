// Sub-chains as a pipeline stage runs them: forward, pause, backward.
//
// SPDX-License-Identifier: Apache-2.0
#include "solve/chains.h"
#include "solve/stage_vectors.h"
#include "solve/table_times.h"

#include "trireme/simulate/replay.h"
#include "trireme/solve/exhaustive.h"
#include "trireme/solve/tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace trireme::solve {
namespace {

Tables tables_of(const chain::Chain& chain, int last, int top) {
  return Tables(chain, 1, last, {.unit = Bytes(1), .top = top});
}

std::int64_t keep_all_peak(Problem problem) {
  problem.budget = Bytes(std::int64_t{1} << 40);
  return std::get<Solution>(solve("keep_all", problem)).peak.count();
}

// Chain A without a loss as a stage with w micro-batches in flight: least M for each time. From an
// exhaustive search over all programs, with (w-1) K + peak <= M.
TEST(FirstPass, ReachesTheOptimumOfAStageWithAPause) {
  const chain::Chain chain = without_loss(chain_a());
  const Tables tables = tables_of(chain, chain.length(), 64);
  for (const auto& [in_flight, steps] : chain_a_stages()) {
    std::size_t next = 0;
    double best = -1;
    for (int memory = 1; memory <= 64; ++memory) {
      double time = -1;
      for (int kept = 1; kept <= memory; ++kept) {
        const Slots m = memory - (in_flight - 1) * kept - 1;  // next to x[0]
        if (m < 0) break;
        const FirstPass pass(tables, 4, std::max<Slots>(0, m + 1 - kept));
        const double found = time_of(pass, 1, m).count();
        if (!std::isfinite(found)) continue;
        if (time < 0 || found < time) time = found;
        const simulate::Replay replay = simulate::replay(chain, rebuild_stage(pass, {1, 4}, m));
        ASSERT_FALSE(replay.fault) << replay.fault->reason;
        EXPECT_EQ(replay.time.count(), found);
        EXPECT_LE(replay.kept, Bytes(kept));
        EXPECT_LE((in_flight - 1) * Bytes(kept) + replay.peak, Bytes(memory));
      }
      if (next < steps.size() && memory == steps[next].first) best = steps[next++].second;
      EXPECT_EQ(time, best) << in_flight << " in flight, " << memory << " bytes";
    }
    EXPECT_EQ(next, steps.size()) << in_flight << " in flight";
  }
}

// During a first forward no gradient is there: the first pass needs no more than C, which holds the
// gradient of x[t] throughout, and less where x[t] is large.
TEST(FirstPass, HoldsNoGradientBeforeThePause) {
  std::mt19937 random(18);
  int gains = 0;
  for (int k = 0; k < 200; ++k) {
    const chain::Chain chain = random_chain(random, {.extra_per_output = 1});
    const Tables tables = tables_of(chain, chain.length(), 60);
    const FirstPass pass(tables, chain.length());
    for (int m = 0; m <= 60; ++m) {
      const Seconds with = time_of(tables, 1, chain.length(), m), without = time_of(pass, 1, m);
      ASSERT_LE(without, with);
      gains += without < with ? 1 : 0;
      if (chain.output(chain.length()) == Bytes(0)) {
        EXPECT_EQ(without, with);
      }
    }
  }
  EXPECT_GT(gains, 50);
}

// A stage with w micro-batches in flight: (w-1) K + peak <= M for the best K. The oracle tries
// every K, too, and all programs that keep no more than that.
TEST(FirstPass, IsNearlyAlwaysTheBestOfAllStagesWithAPause) {
  std::mt19937 random(5);
  int cases = 0, equal = 0;
  double gap = 0, worst = 0;
  for (int k = 0; k < 500; ++k) {
    const chain::Chain chain =
        random_chain(random, {.most_tape_beyond = k % 7, .extra_per_output = k % 5}, 4 + k % 3);
    Problem problem = whole(chain, 0);
    --problem.last_layer;
    const int last = problem.last_layer, in_flight = 2 + k % 3;
    const std::int64_t all = keep_all_peak(problem);
    const std::int64_t memory =
        std::uniform_int_distribution<std::int64_t>(all / 2, all * in_flight)(random);
    const Tables tables = tables_of(chain, last, static_cast<int>(memory));
    double best = -1, found = -1;
    for (std::int64_t kept = chain.input.count(); (in_flight - 1) * kept <= memory; ++kept) {
      problem.budget = Bytes(memory - (in_flight - 1) * kept);
      const auto program = search_fastest(problem, {.most_kept = Bytes(kept)});
      if (program) {
        const double time = simulate::replay(chain, *program).time.count();
        best = best < 0 ? time : std::min(best, time);
      }
      const Slots m = tables.costs().available(problem.budget);
      const FirstPass pass(tables, last, std::max<Slots>(0, m + chain.input.count() - kept));
      const double time = time_of(pass, 1, m).count();
      if (std::isfinite(time)) found = found < 0 ? time : std::min(found, time);
    }
    if (found < 0) continue;
    ASSERT_GE(found, best) << chain::to_yaml(chain) << memory;
    ++cases;
    equal += found == best ? 1 : 0;
    if (best > 0) {
      gap += found / best - 1;
      worst = std::max(worst, found / best - 1);
    }
  }
  std::cout << "stages with a pause: " << equal << " of " << cases
            << " feasible cases optimal, mean gap " << 100 * gap / cases << " %, worst "
            << 100 * worst << " %\n";
  EXPECT_GT(cases, 100);
  EXPECT_GE(equal, 0.97 * cases);
  EXPECT_LE(gap / cases, 0.0015);
}

}  // namespace
}  // namespace trireme::solve
