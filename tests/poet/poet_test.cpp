// What solvers of graphs promise: their names, what they may do, time limits, answers without a
// schedule.
// SPDX-License-Identifier: Apache-2.0
#include "poet/graphs.h"
#include "poet/random_problems.h"

#include "trireme/core/error.h"
#include "trireme/poet/solve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace trireme::poet {
namespace {

using graph::Op;

std::ptrdiff_t count(const graph::Schedule& schedule, Op op) {
  return std::count_if(schedule.begin(), schedule.end(),
                       [op](const graph::Action& action) { return action.op == op; });
}

Solution solved(std::string_view solver, const graph::Problem& problem, const Freedom& freedom) {
  return std::get<Solution>(solve(solver, problem, freedom));
}

TEST(Poet, DoesOnlyWhatItMay) {
  const graph::Problem problem = unit_chain(6, 5, 0.25);
  const Solution both = solved("poet", problem, {});
  const Solution copies = solved("poet", problem, {.may_recompute = false});
  const Solution again = solved("poet", problem, {.may_copy = false});
  EXPECT_EQ(copies.outcome.recompute, Seconds(0));
  EXPECT_GT(count(copies.schedule, Op::kCopyIn), 0);
  EXPECT_EQ(count(again.schedule, Op::kCopyOut) + count(again.schedule, Op::kCopyIn), 0);
  EXPECT_GT(again.outcome.recompute, Seconds(0));
  EXPECT_LE(both.outcome.energy(), std::min(copies.outcome.energy(), again.outcome.energy()));
}

TEST(Poet, KeepsEverythingWhereThatFits) {
  graph::Problem problem = unit_chain(6, 0, 0.25);
  const Solution solution = solved("poet", problem, {});
  EXPECT_EQ(solution.schedule, keep_all(problem.graph));
  EXPECT_TRUE(solution.is_optimal);
  EXPECT_EQ(solution.bound, 18);
}

TEST(Poet, WithoutTimeReturnsItsStartWithABound) {
  const graph::Problem problem = unit_chain(20, 5, 0.25);
  Freedom freedom{.limit = Seconds(0)};
  const Solution greedy = solved("greedy", problem, freedom);
  freedom.start = greedy.schedule;
  const Solution solution = solved("poet", problem, freedom);
  EXPECT_FALSE(solution.is_optimal);
  EXPECT_LE(solution.outcome.energy(), greedy.outcome.energy());
  EXPECT_LE(solution.bound, solution.outcome.energy().count());
}

// A limit that is over leaves nothing for the programs of why there is no answer, either.
TEST(Poet, WithoutTimeProvesNothingAboutAnAnswer) {
  graph::Problem problem = unit_chain(20, 4, 0.25);
  problem.capacity = Bytes(2);
  const Infeasible why =
      std::get<Infeasible>(solve("poet", problem, {.may_recompute = false, .limit = Seconds(0)}));
  EXPECT_FALSE(why.is_proven);
  EXPECT_EQ(why.least_memory, Bytes(22));  // keep_all's: the least that was found
  EXPECT_EQ(why.least_time, Seconds(0));
}

TEST(TimeLimit, IsSharedByItsCopiesAndGivesParts) {
  const TimeLimit all = Seconds(1000), part = all.part(0.25), copy = part;
  EXPECT_LE(part.left(), Seconds(250));
  EXPECT_GT(part.left(), Seconds(0));
  EXPECT_LE(copy.left(), part.left());
  EXPECT_LE(all.left(), Seconds(1000));
  EXPECT_TRUE(all.part(0).is_over());
  EXPECT_TRUE(TimeLimit(Seconds(0)).part(1).is_over());
}

TEST(Poet, SaysHowMuchMemoryWouldDo) {
  const Infeasible why = std::get<Infeasible>(solve("poet", unit_chain(3, 3, 1), {}));
  EXPECT_TRUE(why.is_proven);
  EXPECT_EQ(why.least_memory, Bytes(4));
  EXPECT_THAT(why.where, testing::HasSubstr("4 B"));
  EXPECT_TRUE(std::holds_alternative<Solution>(solve("poet", unit_chain(3, 4, 1), {})));
}

TEST(Poet, SaysHowMuchTimeWouldDo) {
  graph::Problem problem = unit_chain(6, 5, 1);
  problem.deadline = Seconds(19);
  const Infeasible why = std::get<Infeasible>(solve("poet", problem, {}));
  EXPECT_NEAR(why.least_time.count(), 20, 1e-9);
  EXPECT_EQ(why.memory_in_time, Bytes(6));  // section 9.9's vector: 19 of compute in 6 bytes
  EXPECT_THAT(why.where, testing::HasSubstr("1.00 s too early"));
  problem.deadline = Seconds(20);
  EXPECT_TRUE(std::holds_alternative<Solution>(solve("poet", problem, {})));
}

// Each of its nodes once takes 18 s.
TEST(Poet, SaysThatNoMemoryMeetsADeadline) {
  graph::Problem problem = unit_chain(6, 5, 1);
  problem.deadline = Seconds(17);
  for (const char* const solver : {"poet", "poet_chain", "greedy", "keep_all"}) {
    const Infeasible why = std::get<Infeasible>(solve(solver, problem, {}));
    EXPECT_EQ(why.memory_in_time, Bytes(0)) << solver;
  }
  const Infeasible why = std::get<Infeasible>(solve("poet", problem, {}));
  EXPECT_TRUE(why.is_proven);
  EXPECT_NEAR(why.least_time.count(), 20, 1e-9);
  EXPECT_THAT(why.where, testing::HasSubstr("18.0 s that computing every node once takes"));
}

/// What each solver names as a memory that does, does.
void expect_memory_that_does(const graph::Problem& problem, Bytes Infeasible::*named,
                             const std::vector<const char*>& solvers) {
  for (const char* const solver : solvers) {
    graph::Problem wider = problem;
    wider.memory = std::get<Infeasible>(solve(solver, problem, {})).*named;
    EXPECT_GT(wider.memory, problem.memory) << solver;
    EXPECT_TRUE(std::holds_alternative<Solution>(solve(solver, wider, {}))) << solver;
  }
}

TEST(Solvers, NameAMemoryThatMeetsTheDeadline) {
  graph::Problem problem = unit_chain(6, 5, 1);
  problem.deadline = Seconds(19);
  expect_memory_that_does(problem, &Infeasible::memory_in_time,
                          {"poet", "poet_recompute", "poet_chain", "greedy", "keep_all"});
}

TEST(Solvers, NameAMemoryThatDoesWhereTheyFindNothing) {
  expect_memory_that_does(unit_chain(6, 3, 1), &Infeasible::least_memory,
                          {"poet", "poet_chain", "greedy", "capuchin", "keep_all"});
}

// Where memory has no limit, no memory is advised.
TEST(Solvers, SpeakOfTheDeadlineAloneWhereMemoryHasNoLimit) {
  graph::Problem problem = unit_chain(6, 0, 1);
  problem.deadline = Seconds(17);
  for (const char* const solver : {"poet", "poet_chain", "greedy", "keep_all"}) {
    const Infeasible why = std::get<Infeasible>(solve(solver, problem, {}));
    EXPECT_EQ(why.memory_in_time, Bytes(0)) << solver;
    EXPECT_THAT(why.where, testing::Not(testing::HasSubstr("0 B"))) << solver << why.where;
  }
}

// Two schedules of the same joules: the one to begin with, which ends sooner, is the answer.
TEST(Solvers, TakeTheSoonerOfEquallyGoodSchedules) {
  graph::Problem problem = unit_chain(6, 5, 1);
  for (graph::NodeCost& cost : problem.costs)
    cost.energy = cost.out_energy = cost.in_energy = Joules(0);
  Freedom freedom{.objective = Objective::kTime};
  const Solution fastest = solved("poet", problem, freedom);
  freedom.objective = Objective::kEnergy;
  EXPECT_GT(solved("poet", problem, freedom).outcome.time, fastest.outcome.time);
  freedom.start = fastest.schedule;
  const Solution any = solved("poet", problem, freedom);
  EXPECT_EQ(any.outcome.energy(), fastest.outcome.energy());
  EXPECT_LE(any.outcome.time, fastest.outcome.time);
}

TEST(Poet, TellsNanojoulesApart) {
  graph::Problem problem = unit_chain(6, 5, 0.25);
  for (graph::NodeCost& cost : problem.costs) {
    for (Joules* const joules : {&cost.energy, &cost.out_energy, &cost.in_energy}) {
      *joules = *joules * 1e-12;
    }
  }
  EXPECT_NEAR(solved("poet", problem, {}).outcome.energy().count(), 19e-12, 1e-18);
}

TEST(Greedy, IsNeverBetterThanPoet) {
  std::mt19937 random(5);
  int found = 0;
  for (int k = 0; k < 100; ++k) {
    auto [problem, freedom] = random_instance(random, graph::Lanes::kInTurn, 9);
    const Result greedy = solve("greedy", problem, freedom);
    if (!std::holds_alternative<Solution>(greedy)) continue;
    ++found;
    const Result poet = solve("poet", problem, freedom);
    ASSERT_TRUE(std::holds_alternative<Solution>(poet)) << k;
    const graph::Outcome& best = std::get<Solution>(poet).outcome;
    const graph::Outcome& other = std::get<Solution>(greedy).outcome;
    if (freedom.objective == Objective::kEnergy) {
      EXPECT_LE(best.energy().count(), other.energy().count() * (1 + 1e-6)) << k;
    } else {
      EXPECT_LE(best.time.count(), other.time.count() * (1 + 1e-6)) << k;
    }
  }
  EXPECT_GT(found, 30);
}

TEST(Solvers, AreFoundByName) {
  EXPECT_THAT(solver_names(),
              testing::ElementsAre("keep_all", "greedy", "capuchin", "pofo", "poet_chain", "poet",
                                   "poet_recompute", "poet_offload"));
  for (const std::string& name : solver_names()) {
    EXPECT_EQ(solved(name, unit_chain(3, 0, 1), {}).solver, name);
  }
  try {
    solve("greeedy", unit_chain(3, 0, 1), {});
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("did you mean 'greedy'?"));
  }
}

}  // namespace
}  // namespace trireme::poet
