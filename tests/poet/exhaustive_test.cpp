// poet against a search through everything, on small graphs at random.
// SPDX-License-Identifier: Apache-2.0
#include "poet/exhaustive.h"

#include "poet/random_problems.h"
#include "support/trials.h"

#include "trireme/core/text.h"
#include "trireme/poet/solve.h"

#include <gtest/gtest.h>

#include <iostream>
#include <random>
#include <string>

namespace trireme::poet {
namespace {

using graph::Lanes;

/// 600 in all in a build without sanitizers.
constexpr int kInstances = trials(100);

/// How instances ended.
struct Counts {
  int feasible = 0, infeasible = 0;
  int explained = 0;  ///< the search finds something better that is no schedule of the program
};

Tries tries_of(const Freedom& freedom) {
  return {.least = freedom.objective == Objective::kEnergy ? Least::kEnergy : Least::kTime,
          .may_recompute = freedom.may_recompute,
          .may_copy = freedom.may_copy};
}

// What a program can say (docs/poet.md).
Tries as_programs(Tries tries) {
  tries.late_copies_out = false;
  tries.any_order = false;
  return tries;
}

double value_of(const Best& best, const Freedom& freedom) {
  return freedom.objective == Objective::kEnergy ? best.energy.count() : best.time.count();
}

double value_of(const Solution& solution, const Freedom& freedom) {
  return freedom.objective == Objective::kEnergy ? solution.outcome.energy().count()
                                                 : solution.outcome.time.count();
}

void expect_close(double found, double expected, const std::string& where) {
  EXPECT_NEAR(found, expected, 1e-6 * expected) << where;
}

// The search and replay() know nothing of each other.
void expect_replayed(const graph::Problem& problem, const Best& best, const std::string& where) {
  const graph::Replayed replayed = replay(problem, best.schedule);
  ASSERT_FALSE(replayed.fault) << where << ": " << replayed.fault->reason;
  expect_close(replayed.outcome.time.count(), best.time.count(), where);
  expect_close(replayed.outcome.energy().count(), best.energy.count(), where);
  EXPECT_EQ(replayed.outcome.peak, best.peak) << where;
}

// Where poet finds something worse, the search must, too, within what a program can say.
void expect_best(const Instance& instance, const Solution& solution, const std::string& where,
                 Counts& counts) {
  const auto& [problem, freedom] = instance;
  Tries tries = tries_of(freedom);
  auto best = search(problem, tries);
  ASSERT_TRUE(best) << where;
  expect_replayed(problem, *best, where);
  EXPECT_TRUE(solution.is_optimal) << where;
  const double found = value_of(solution, freedom);
  EXPECT_GE(found, value_of(*best, freedom) * (1 - 1e-6)) << where;
  if (found > value_of(*best, freedom) * (1 + 1e-6)) {
    ++counts.explained;
    best = search(problem, as_programs(tries));
    ASSERT_TRUE(best) << where;
  }
  expect_close(found, value_of(*best, freedom), where);
}

void expect_infeasible(const Instance& instance, const Infeasible& why, const std::string& where,
                       Counts& counts) {
  auto [problem, freedom] = instance;
  Tries tries = tries_of(freedom);
  EXPECT_TRUE(why.is_proven) << where;
  if (search(problem, tries)) {
    ++counts.explained;
    tries = as_programs(tries);
    EXPECT_FALSE(search(problem, tries)) << where;
  }
  graph::Problem wide = problem;
  wide.memory = Bytes(0);
  tries.least = Least::kMemory;
  const auto in_time = search(wide, tries);
  const bool has_deadline = problem.deadline < graph::Problem{}.deadline;
  EXPECT_EQ(why.memory_in_time, has_deadline && in_time ? in_time->peak : Bytes(0)) << where;
  problem.deadline = graph::Problem{}.deadline;
  tries.least = Least::kTime;
  const auto fastest = search(problem, tries);
  EXPECT_EQ(why.least_time > Seconds(0), fastest.has_value()) << where;
  if (fastest) expect_close(why.least_time.count(), fastest->time.count(), where);
  problem.memory = Bytes(0);
  tries.least = Least::kMemory;
  const auto leanest = search(problem, tries);
  ASSERT_TRUE(leanest) << where;
  EXPECT_EQ(why.least_memory, leanest->peak) << where;
}

/// Makes an instance.
using Draw = Instance (*)(std::mt19937& random, Lanes lanes, int most_nodes);

Counts compare(Lanes lanes, int most_nodes, unsigned seed, Draw next = random_instance) {
  Counts counts;
  std::mt19937 random(seed);
  for (int k = 0; k < kInstances; ++k) {
    const Instance instance = next(random, lanes, most_nodes);
    const std::string where = concat("instance ", k, " of seed ", seed);
    const Result result = solve("poet", instance.problem, instance.freedom);
    if (const auto* const solution = std::get_if<Solution>(&result)) {
      ++counts.feasible;
      expect_best(instance, *solution, where, counts);
    } else {
      ++counts.infeasible;
      expect_infeasible(instance, std::get<Infeasible>(result), where, counts);
    }
  }
  std::cout << kInstances << " graphs of up to " << most_nodes << " nodes: " << counts.feasible
            << " feasible, " << counts.infeasible << " not, " << counts.explained << " explained\n";
  return counts;
}

class Exhaustive : public testing::TestWithParam<unsigned> {};

TEST_P(Exhaustive, PoetFindsTheBestInTurn) {
  const Counts counts = compare(Lanes::kInTurn, 10, GetParam());
  EXPECT_LE(counts.explained, 1);
  EXPECT_GE(counts.feasible, kInstances / 3);
  EXPECT_GE(counts.infeasible, kInstances / 10);
}

TEST_P(Exhaustive, PoetFindsTheBestBesideCompute) {
  const Counts counts = compare(Lanes::kBeside, 7, GetParam());
  EXPECT_LE(counts.explained, 1);
  EXPECT_GE(counts.feasible, kInstances / 3);
  EXPECT_GE(counts.infeasible, kInstances / 10);
}

TEST_P(Exhaustive, PoetCountsWhatIsInUseOnlyDuringAComputation) {
  const Counts counts = compare(Lanes::kInTurn, 9, GetParam(), random_instance_with_transients);
  EXPECT_LE(counts.explained, 1);
  EXPECT_GE(counts.feasible, kInstances / 3);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Exhaustive, testing::Range(1U, 4U));

}  // namespace
}  // namespace trireme::poet
