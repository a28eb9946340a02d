// The table solvers against the exhaustive search, on random chains with temporaries up to four
// times an output, outputs of no bytes and lean tapes.
//
// SPDX-License-Identifier: Apache-2.0

#include "solve/chains.h"

#include "trireme/core/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iostream>
#include <random>

namespace trireme::solve {
namespace {

// Budgets from what the leanest program needs to what keeps everything.
struct Range {
  std::int64_t least, most;
};

Range budgets(Problem problem) {
  problem.budget = Bytes(-1);
  const auto none = std::get<plan::Infeasible>(solve("exhaustive", problem));
  problem.budget = Bytes(std::int64_t{1} << 40);
  const auto all = std::get<Solution>(solve("keep_all", problem));
  return {none.least_budget.count(), all.peak.count()};
}

// The whole chain, or all but its last layer: then x[last] is sent, and its gradient received.
Problem part(const chain::Chain& chain, int number) {
  Problem problem = whole(chain, 0, number % 2 == 0 ? 0 : 500);
  if (number % 5 < 2 && chain.length() > 3) --problem.last_layer;
  return problem;
}

// Lengths from three to seven: shorter chains leave nothing to choose.
int some_length(std::mt19937& random) {
  std::discrete_distribution<int> lengths{0, 0, 0, 3, 4, 5, 4, 3};
  return lengths(random);
}

chain::Chain next_chain(std::mt19937& random, int number) {
  Shape shape;
  shape.lean_tapes = number % 4 == 3;
  if (number % 3 == 0) shape.extra_per_output = 0;
  shape.most_tape_beyond = std::array{0, 2, 6, 12}[static_cast<std::size_t>(number % 4)];
  return random_chain(random, shape, some_length(random));
}

TEST(Rotor, EqualsTheBestPersistentSchedule) {
  std::mt19937 random(1);
  int cases = 0, infeasible = 0;
  for (int k = 0; k < 1500; ++k) {
    const chain::Chain chain = next_chain(random, k);
    Problem problem = part(chain, k);
    const Range range = budgets(problem);
    std::uniform_int_distribution<std::int64_t> pick(range.least, range.most);
    for (const std::int64_t budget : {pick(random), pick(random), range.least}) {
      problem.budget = Bytes(budget);
      const Result oracle = solve("exhaustive persistent", problem);
      const Result rotor = solve("rotor", problem);
      ASSERT_EQ(time_of(rotor), time_of(oracle)) << chain::to_yaml(chain) << budget;
      if (!feasible(oracle)) {
        ++infeasible;
        EXPECT_EQ(std::get<plan::Infeasible>(rotor).least_budget,
                  std::get<plan::Infeasible>(oracle).least_budget);
      }
      ++cases;
    }
  }
  std::cout << "rotor: " << cases - infeasible << " feasible and " << infeasible
            << " infeasible cases, all equal to the best persistent schedule\n";
  EXPECT_GT(cases - infeasible, 1000);
}

TEST(RotorFree, IsNearlyAlwaysTheBestOfAllSchedules) {
  std::mt19937 random(2);
  int cases = 0, equal = 0, rotor_feasible = 0;
  double gap = 0, worst = 0, rotor_gap = 0;
  for (int k = 0; k < 1500; ++k) {
    const chain::Chain chain = next_chain(random, k);
    Problem problem = part(chain, k);
    const Range range = budgets(problem);
    std::uniform_int_distribution<std::int64_t> pick(range.least, range.most);
    std::uniform_int_distribution<std::int64_t> tight(range.least,
                                                      (3 * range.least + range.most) / 4);
    for (const std::int64_t budget : {pick(random), tight(random)}) {
      problem.budget = Bytes(budget);
      const double best = time_of(solve("exhaustive", problem));
      const double free = time_of(solve("rotor_free", problem));
      const double rotor = time_of(solve("rotor", problem));
      ASSERT_GE(best, 0);  // the range begins where the oracle is feasible
      if (free < 0) continue;
      ASSERT_GE(free, best) << chain::to_yaml(chain) << budget;
      ++cases;
      equal += free == best ? 1 : 0;
      if (best > 0) {
        gap += free / best - 1;
        worst = std::max(worst, free / best - 1);
      }
      if (rotor >= 0) {
        ASSERT_LE(free, rotor) << chain::to_yaml(chain) << budget;
        ++rotor_feasible;
        if (best > 0) rotor_gap += rotor / best - 1;
      }
    }
  }
  std::cout << "rotor_free: " << equal << " of " << cases << " feasible cases are optimal ("
            << 100.0 * equal / cases << " %), mean gap " << 100 * gap / cases << " %, worst "
            << 100 * worst << " %; rotor: feasible in " << rotor_feasible << ", mean gap "
            << 100 * rotor_gap / rotor_feasible << " %\n";
  EXPECT_GT(cases, 1000);
  EXPECT_GE(equal, 0.97 * cases);
  EXPECT_LE(gap / cases, 0.0015);
}

TEST(Exhaustive, IsNeverSlowerThanAnybody) {
  std::mt19937 random(3);
  int compared = 0;
  for (int k = 0; k < 150; ++k) {
    const chain::Chain chain = next_chain(random, k);
    const Range range = budgets(whole(chain, 0));
    const auto budget = std::uniform_int_distribution(range.least, range.most)(random);
    const double best = time_of(solve("exhaustive", whole(chain, budget)));
    ASSERT_GE(best, 0);  // the range begins where it is feasible
    for (const std::string& name : solver_names()) {
      const double time = time_of(solve(name, whole(chain, budget)));
      if (time < 0 || name == "exhaustive") continue;
      EXPECT_LE(best, time) << name << '\n' << chain::to_yaml(chain) << budget;
      ++compared;
    }
  }
  EXPECT_GT(compared, 1000);
}

}  // namespace
}  // namespace trireme::solve
