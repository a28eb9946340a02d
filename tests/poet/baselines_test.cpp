// capuchin and pofo: never better than the best of all schedules, and what their papers' rules say.
// SPDX-License-Identifier: Apache-2.0
#include "poet/exhaustive.h"
#include "poet/graphs.h"
#include "poet/random_problems.h"
#include "support/trials.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/poet/solve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <tuple>

namespace trireme::poet {
namespace {

using graph::Lanes;
using graph::Op;

constexpr int kGraphs = trials(120);

std::ptrdiff_t count(const graph::Schedule& schedule, Op op) {
  return std::count_if(schedule.begin(), schedule.end(),
                       [op](const graph::Action& action) { return action.op == op; });
}

class Baselines : public testing::TestWithParam<std::tuple<const char*, Lanes>> {};

// solve() has replayed what it returns.
TEST_P(Baselines, AreNeverBetterThanTheBestOfAllSchedules) {
  const auto [solver, lanes] = GetParam();
  std::mt19937 random(21);
  int found = 0, worse = 0;
  for (int k = 0; k < kGraphs; ++k) {
    const auto [problem, freedom] = random_instance(random, lanes, lanes == Lanes::kInTurn ? 9 : 7);
    const Result result = solve(solver, problem, freedom);
    const bool is_energy = freedom.objective == Objective::kEnergy;
    const auto best = search(problem, {.least = is_energy ? Least::kEnergy : Least::kTime,
                                       .may_recompute = freedom.may_recompute,
                                       .may_copy = freedom.may_copy});
    const auto* const solution = std::get_if<Solution>(&result);
    if (solution == nullptr) {
      EXPECT_FALSE(best && std::get<Infeasible>(result).is_proven) << k;
      continue;
    }
    ASSERT_TRUE(best) << k;
    ++found;
    EXPECT_TRUE(freedom.may_recompute || solution->outcome.recompute == Seconds(0)) << k;
    EXPECT_TRUE(freedom.may_copy || solution->outcome.offloaded == Bytes(0)) << k;
    const double value =
        is_energy ? solution->outcome.energy().count() : solution->outcome.time.count();
    const double least = is_energy ? best->energy.count() : best->time.count();
    EXPECT_GE(value, least * (1 - 1e-6)) << k;
    worse += value > least * (1 + 1e-6) ? 1 : 0;
  }
  EXPECT_GE(found, kGraphs / 8);
  EXPECT_GE(worse, 1);
}

// solve() refuses a schedule that exceeds the memory while something is computed.
class QuickSolvers : public testing::TestWithParam<Lanes> {};

TEST_P(QuickSolvers, KeepRoomForWhatIsInUseOnlyDuringAComputation) {
  std::mt19937 random(22);
  int found = 0;
  for (int k = 0; k < kGraphs; ++k) {
    const auto [problem, freedom] = random_instance_with_transients(random, GetParam(), 9);
    for (const char* const solver : {"greedy", "capuchin", "pofo", "poet_chain"}) {
      try {
        const Result result = solve(solver, problem, freedom);
        found += std::holds_alternative<Solution>(result) ? 1 : 0;
      } catch (const InputError&) {  // a graph that the solver does not take
      }
    }
  }
  EXPECT_GE(found, kGraphs / 2);
}

INSTANTIATE_TEST_SUITE_P(Lanes, QuickSolvers, testing::Values(Lanes::kInTurn, Lanes::kBeside),
                         [](const auto& row) {
                           return row.param == Lanes::kInTurn ? "in_turn" : "beside";
                         });

INSTANTIATE_TEST_SUITE_P(Solvers, Baselines,
                         testing::Combine(testing::Values("capuchin", "pofo"),
                                          testing::Values(Lanes::kInTurn, Lanes::kBeside)),
                         [](const auto& row) {
                           return concat(
                               std::get<0>(row.param),
                               std::get<1>(row.param) == Lanes::kInTurn ? "_in_turn" : "_beside");
                         });

graph::Problem beside(int layers, int memory, double copy) {
  graph::Problem problem = unit_chain(layers, memory, copy);
  problem.lanes = Lanes::kBeside;
  return problem;
}

Solution solved(const char* solver, const graph::Problem& problem) {
  return std::get<Solution>(solve(solver, problem, {}));
}

// The first outputs wait longest for their backwards: their copies are hidden by all others.
TEST(Capuchin, SwapsWhatIsHidden) {
  const graph::Problem problem = beside(8, 8, 0.25);
  const Solution solution = solved("capuchin", problem);
  EXPECT_EQ(solution.outcome.recompute, Seconds(0));
  EXPECT_NEAR(solution.outcome.time.count(), 24, 1e-9);
  EXPECT_GE(count(solution.schedule, Op::kCopyOut), 1);
  EXPECT_EQ(solution.schedule[1], (graph::Action{Op::kCopyOut, 0}));
}

// However dear a hidden copy is, it comes first; poet counts its joules.
TEST(Capuchin, DoesNotCountEnergy) {
  graph::Problem problem = beside(8, 8, 0.25);
  for (graph::NodeCost& cost : problem.costs) cost.out_energy = cost.in_energy = Joules(100);
  const Solution greedy = solved("capuchin", problem), best = solved("poet", problem);
  EXPECT_GT(greedy.outcome.copies, Joules(200));
  EXPECT_EQ(best.outcome.copies, Joules(0));
  EXPECT_GT(greedy.outcome.energy(), 2 * best.outcome.energy());
}

TEST(Capuchin, RecomputesWhereCopiesAreSlow) {
  const Solution solution = solved("capuchin", beside(8, 7, 1000));
  EXPECT_EQ(solution.outcome.offloaded, Bytes(0));
  EXPECT_GT(solution.outcome.recompute, Seconds(0));
}

TEST(Pofo, HidesCopiesOfAChain) {
  const Solution solution = solved("pofo", beside(8, 8, 0.25));
  EXPECT_GT(solution.outcome.offloaded, Bytes(0));
  EXPECT_NEAR(solution.outcome.time.count(), 24, 1);
}

/// Layers 1, 2, 3 = 1 + 2, 4: a skip over layer 2. The backward of layer 1 reads the gradients of
/// layers 2 and 3, so that one gradient is all that is passed on only before layers 4 and 1..3.
graph::Problem skip(int memory) {
  const std::vector<Layer> layers{{.inputs = {0}, .bytes = Bytes(1)},
                                  {.inputs = {1}, .bytes = Bytes(1)},
                                  {.inputs = {1, 2}, .bytes = Bytes(1)},
                                  {.inputs = {3}, .bytes = Bytes(1)}};
  graph::Problem problem = unit_chain(4, memory, 0.25);
  problem.graph = with_backward(Bytes(1), layers);
  problem.memory = Bytes(memory);
  return problem;
}

TEST(Pofo, CutsAGraphWhereOneValueIsPassedOn) {
  for (const auto& [problem, blocks] : {std::pair(unit_chain(4, 3, 1), 4), std::pair(skip(4), 2)}) {
    const Infeasible why = std::get<Infeasible>(solve("pofo", problem, {}));
    EXPECT_THAT(why.where, testing::HasSubstr(concat("into ", blocks, " blocks")));
  }
}

// Layers 1 to 3 are one block, whose values come and go together.
TEST(Pofo, NeedsMoreThanPoetForASkip) {
  const graph::Problem problem = skip(1);
  const Bytes pofo = std::get<Infeasible>(solve("pofo", problem, {})).least_memory;
  const Bytes poet = std::get<Infeasible>(solve("poet", problem, {})).least_memory;
  EXPECT_GT(pofo, poet);
  EXPECT_TRUE(
      std::holds_alternative<Solution>(solve("pofo", skip(static_cast<int>(pofo.count())), {})));
}

}  // namespace
}  // namespace trireme::poet
