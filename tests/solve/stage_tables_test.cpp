// Stages by tables: slots, tables by length and number in flight, shared columns.
//
// SPDX-License-Identifier: Apache-2.0
#include "solve/chains.h"
#include "solve/stage_oracle.h"
#include "solve/table_times.h"
#include "support/trials.h"

#include "trireme/solve/stage.h"
#include "trireme/solve/tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <limits>
#include <random>
#include <utility>
#include <variant>

namespace trireme::solve {
namespace {

// Sizes of mebibytes, coarse slots: one solver for all questions.
TEST(Stage, InSlotsKeepsEveryByteAndAllPromises) {
  std::mt19937 random(53);
  double worst = 0, sum = 0;
  int cases = 0;
  for (int k = 0; k < trials(40); ++k) {
    chain::Chain chain = random_chain(random, {.most_tape_beyond = 6, .extra_per_output = 1}, 12);
    chain.input = chain.input * 999'983;
    for (chain::LayerCost& layer : chain.layers) {
      layer.forward += Seconds(1);
      for (Bytes* size : {&layer.output, &layer.tape, &layer.forward_transient,
                          &layer.tape_transient, &layer.backward_transient}) {
        *size = *size * 999'983;
      }
    }
    const Bytes largest(std::int64_t{120} << 20);
    StageSolver solver(chain, {.largest_memory = largest, .slots = 300});
    for (const int w : {1, 2, 3, 5, 8}) {
      for (int n = 0; n < 6; ++n) {
        const int first = 1 + n, last = 12 - n % 3;
        const Bytes least = solver.least_memory({first, last}, w);
        if (least > largest) continue;
        const StageProblem problem =
            stage_of(first, last, least.count() + (largest - least).count() * n / 6, w);
        const auto result = solver.solve(problem);
        ASSERT_TRUE(std::holds_alternative<StageSolution>(result));
        const StageSolution& solution = std::get<StageSolution>(result);
        expect_honest(chain, problem, solution);
        const double promised = solver.least_time(problem).count();
        ASSERT_TRUE(std::isfinite(promised));
        EXPECT_LE(solution.time().count(), promised * (1 + 1e-6));
        ++cases;
        sum += promised / solution.time().count() - 1;
        worst = std::max(worst, promised / solution.time().count() - 1);
      }
    }
  }
  std::cout << "least_time above what solve reaches: " << 100 * sum / cases << " % in the mean, "
            << 100 * worst << " % at worst, " << cases << " cases\n";
  EXPECT_GT(cases, trials(500));
}

TEST(Stage, MoreMemoryIsNeverSlowerAndMoreInFlightNeverFaster) {
  std::mt19937 random(59);
  int faster = 0;  // with more memory
  for (int k = 0; k < 30; ++k) {
    const chain::Chain chain = random_chain(random, {}, 8);
    StageSolver solver = exact_solver(chain, 150);
    for (int w = 1; w <= 4; ++w) {
      Seconds before(std::numeric_limits<double>::infinity());
      for (int memory = 0; memory <= 150; memory += 5) {
        const Seconds time = solver.least_time(stage_of(2, 8, memory, w));
        EXPECT_LE(time, before);
        faster += time < before ? 1 : 0;
        before = time;
        if (w > 1) {
          EXPECT_GE(time, solver.least_time(stage_of(2, 8, memory, w - 1)));
        }
      }
    }
  }
  EXPECT_GT(faster, 1000);
}

// Tables that hold short sub-chains alone hold the same for them, also where equal ones are shared.
TEST(Stage, ShortSubChainsNeedNoLongOnes) {
  std::mt19937 random(61);
  for (const int period : {60, 3}) {
    chain::Chain chain = random_chain(random, {.extra_per_output = 1}, 60);
    for (std::size_t i = 0; i < chain.layers.size(); ++i) {
      chain.layers[i] = chain.layers[i % static_cast<std::size_t>(period)];
    }
    const Tables full(chain, 1, 60, {.unit = Bytes(1), .top = 70});
    for (const int longest : {1, 9, 16, 17, 40}) {
      const Tables some(chain, 1, 60, {.unit = Bytes(1), .top = 70, .longest = longest});
      for (int s = 1; s <= 60; ++s) {
        for (int t = s; t <= std::min(60, s + longest - 1); ++t) {
          for (int m = 0; m <= 70; m += 7) {
            ASSERT_EQ(time_of(some, s, t, m), time_of(full, s, t, m))
                << s << ".." << t << ", " << m;
            ASSERT_EQ(time_resumed(some, s, t, m), time_resumed(full, s, t, m))
                << s << ".." << t << ", " << m;
          }
        }
      }
    }
  }
}

// A long chain has tables of several kinds: by length of the stage and by how many are in flight.
TEST(Stage, OfALongChainIsAsGoodAsAlone) {
  std::mt19937 random(71);
  chain::Chain chain = random_chain(random, {.most_tape_beyond = 6, .extra_per_output = 1}, 150);
  for (chain::LayerCost& layer : chain.layers) layer.forward += Seconds(1);
  StageSolver solver(chain, {.largest_memory = Bytes(900), .slots = 450});
  double worst = 0;
  for (const auto& [first, last] : {std::pair(3, 20), std::pair(40, 100), std::pair(51, 150)}) {
    chain::Chain part{.name = "part", .input = chain.output(first - 1), .layers = {}};
    part.layers.assign(chain.layers.begin() + first - 1, chain.layers.begin() + last);
    if (last < 150) part.layers.push_back(layer(1, 1, 0, 0));  // the loss lies beyond
    for (const int w : {1, 2, 5, 9}) {
      StageSolver exact = exact_solver(part, 900);
      const int length = last - first + 1;
      const std::int64_t least = exact.least_memory({1, length}, w).count();
      EXPECT_EQ(solver.least_memory({first, last}, w).count(), least);
      for (std::int64_t memory = least; memory <= 900; memory += 150) {
        const double best = exact.least_time(stage_of(1, length, memory, w)).count();
        const double found = solver.least_time(stage_of(first, last, memory, w)).count();
        EXPECT_GE(found, best * (1 - 1e-6));
        if (memory > least + 20) worst = std::max(worst, found / best - 1);
      }
    }
  }
  std::cout << "coarse tables of a long chain: at most " << 100 * worst << " % above exact ones\n";
  EXPECT_LE(worst, 0.05);
}

// Equal blocks share their columns; the last layer, which ends with the loss, is told apart.
TEST(Stage, OfEqualLayersIsTheSameWhereverItIsAsked) {
  chain::Chain chain{.name = "equal", .input = Bytes(2), .layers = {}};
  for (int i = 0; i < 12; ++i) {
    chain::LayerCost cost = layer(i % 2 == 0 ? 2 : 3, 5, 2, i % 2 == 0 ? 5 : 7);
    cost.backward_transient = Bytes(3);
    chain.layers.push_back(cost);
  }
  StageSolver shared = exact_solver(chain, 120);
  for (int w = 1; w <= 3; ++w) {
    for (int memory = 10; memory <= 120; memory += 11) {
      for (int first = 1; first <= 12; ++first) {
        for (int last = first; last <= 12; ++last) {
          chain::Chain part{.name = "part", .input = chain.output(first - 1), .layers = {}};
          const auto begin = chain.layers.begin();
          part.layers.assign(begin + first - 1, begin + last);
          if (last < 12) part.layers.push_back(layer(100, 100, 0, 0));  // the loss lies beyond
          StageSolver own = exact_solver(part, 120);
          ASSERT_EQ(shared.least_time(stage_of(first, last, memory, w)),
                    own.least_time(stage_of(1, last - first + 1, memory, w)))
              << first << ".." << last << ", " << memory << " bytes, " << w;
        }
      }
    }
  }
}

}  // namespace
}  // namespace trireme::solve
