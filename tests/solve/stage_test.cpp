// Stages of a pipeline: forward, pause, backward, several micro-batches in flight.
//
// SPDX-License-Identifier: Apache-2.0
#include "trireme/solve/stage.h"

#include "solve/chains.h"
#include "solve/stage_oracle.h"
#include "solve/stage_vectors.h"

#include "trireme/simulate/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace trireme::solve {
namespace {

void expect_times(const chain::Chain& chain, int in_flight, bool may_leave,
                  const StageSteps& steps) {
  const int last = chain.length();
  StageSolver solver = exact_solver(chain, 80, may_leave);
  std::size_t next = 0;
  double time = -1;
  for (int memory = 0; memory <= 80; ++memory) {
    if (next < steps.size() && memory == steps[next].first) time = steps[next++].second;
    const StageProblem problem = stage_of(1, last, memory, in_flight);
    const auto result = solver.solve(problem);
    const Seconds least = solver.least_time(problem);
    if (const auto* solution = std::get_if<StageSolution>(&result)) {
      EXPECT_EQ(solution->time().count(), time) << in_flight << " in flight, " << memory;
      EXPECT_EQ(least.count(), time);
      expect_honest(chain, problem, *solution);
    } else {
      EXPECT_EQ(time, -1) << in_flight << " in flight, " << memory;
      EXPECT_FALSE(std::isfinite(least.count()));
      EXPECT_EQ(std::get<plan::Infeasible>(result).least_budget, Bytes(steps.front().first));
    }
  }
}

TEST(Stage, ReachesTheOptimumOfTheWorkedExample) {
  for (const auto& [in_flight, steps] : chain_a_stages())
    expect_times(without_loss(chain_a()), in_flight, true, steps);
}

// The same among memory-persistent programs, by enumeration: where they need more for a time.
TEST(Stage, ReachesTheOptimumOfPersistentPrograms) {
  expect_times(with_loss(chain_a()), 1, false,
               {{10, 34}, {11, 32}, {12, 31}, {14, 29}, {16, 27}, {18, 26}});
  const std::vector<StageSteps> known{{{17, 32}, {24, 29}},
                                      {{23, 32}, {34, 29}, {40, 27}},
                                      {{16, 39}, {29, 32}, {43, 30}, {44, 29}, {52, 27}}};
  StageSolver solver = exact_solver(without_loss(chain_a()), 70, false);
  for (int in_flight = 2; in_flight <= 4; ++in_flight) {
    for (const auto& [memory, time] : known[static_cast<std::size_t>(in_flight) - 2]) {
      EXPECT_EQ(solver.least_time(stage_of(1, 4, memory, in_flight)).count(), time);
      EXPECT_GT(solver.least_time(stage_of(1, 4, memory - 1, in_flight)).count(), time);
    }
  }
}

// Chain A with its loss, enumeration of persistent programs of a model in which x[4] stays until
// the backward. Here it may go, so that a program may fit with less, but none needs more.
TEST(Stage, IsNeverSlowerThanWhereTheOutputStays) {
  const std::vector<StageSteps> known{{{12, 44},
                                       {13, 39},
                                       {14, 37},
                                       {15, 36},
                                       {16, 34},
                                       {17, 32},
                                       {21, 31},
                                       {24, 29},
                                       {28, 27},
                                       {33, 26}},
                                      {{14, 44},
                                       {15, 42},
                                       {16, 39},
                                       {17, 37},
                                       {18, 36},
                                       {22, 34},
                                       {23, 32},
                                       {30, 31},
                                       {34, 29},
                                       {40, 27},
                                       {48, 26}},
                                      {{16, 44},
                                       {17, 42},
                                       {18, 41},
                                       {19, 39},
                                       {20, 37},
                                       {21, 36},
                                       {28, 34},
                                       {29, 32},
                                       {39, 31},
                                       {43, 30},
                                       {44, 29},
                                       {52, 27},
                                       {63, 26}}};
  const chain::Chain chain = with_loss(chain_a());
  StageSolver solver = exact_solver(chain, 70, false);
  for (int in_flight = 2; in_flight <= 4; ++in_flight) {
    for (const auto& [memory, time] : known[static_cast<std::size_t>(in_flight) - 2]) {
      EXPECT_LE(solver.least_time(stage_of(1, 5, memory, in_flight)).count(), time);
    }
    const auto& [everything, least] = known[static_cast<std::size_t>(in_flight) - 2].back();
    EXPECT_EQ(solver.least_time(stage_of(1, 5, everything, in_flight)).count(), least);
    EXPECT_GT(solver.least_time(stage_of(1, 5, everything - 1, in_flight)).count(), least);
  }
}

// Stages of chain B in the best cuts of a known pipeline: its layers have 1, 2, 3, 4, 6, 8 bytes of
// weights, static bytes are three times that, stage k of p has p - k in flight; by enumeration of
// persistent programs.
TEST(Stage, GivesTheBottlenecksOfAKnownPipeline) {
  const std::vector<int> weights{1, 2, 3, 4, 6, 8};
  StageSolver solver = exact_solver(with_loss(chain_b()), 90, false);
  // Stages are written as 0-based layers from..to, `to` excluded; the loss goes with the last.
  const auto time = [&](int memory, int from, int to, int in_flight) {
    for (int i = from; i < to; ++i) memory -= 3 * weights[static_cast<std::size_t>(i)];
    const StageProblem stage = stage_of(from + 1, to == 6 ? 7 : to, memory, in_flight);
    return solver.least_time(stage).count();
  };
  EXPECT_EQ(time(52, 0, 2, 3), 46);
  EXPECT_EQ(time(52, 4, 6, 1), 14);
  EXPECT_EQ(time(60, 2, 4, 2), 31);
  EXPECT_EQ(time(64, 0, 2, 3), 38);
  EXPECT_EQ(time(64, 2, 4, 2), 31);
  EXPECT_EQ(time(68, 0, 2, 3), 38);
  EXPECT_EQ(time(68, 2, 3, 2), 17);
  EXPECT_EQ(time(68, 3, 6, 1), 33);
  EXPECT_EQ(time(68, 0, 3, 2), 55);
  EXPECT_EQ(time(72, 3, 6, 1), 28);
  EXPECT_EQ(time(80, 0, 3, 2), 51);
  EXPECT_EQ(time(90, 0, 2, 2), 34);
  // There the output of a stage in the middle stays until its backward; here it is passed on.
  EXPECT_LE(time(52, 2, 4, 2), 37);
  EXPECT_LE(time(60, 0, 4, 2), 104);
  EXPECT_LE(time(64, 0, 4, 2), 92);
}

struct Score {
  int cases = 0, equal = 0;
  double gap = 0, worst = 0;

  void add(double found, double best) {
    ++cases;
    equal += found == best ? 1 : 0;
    if (best <= 0) return;
    gap += found / best - 1;
    worst = std::max(worst, found / best - 1);
  }
  double mean() const { return gap / cases; }
};

std::ostream& operator<<(std::ostream& out, const Score& score) {
  return out << score.equal << " of " << score.cases << " feasible cases optimal, mean gap "
             << 100 * score.mean() << " %, worst " << 100 * score.worst << " %";
}

// Random stages of random chains, between their least memory and what keeping everything takes.
struct Case {
  chain::Chain chain;
  StageProblem problem;
};

Case random_case(std::mt19937& random, int k) {
  const int layers = 3 + k % 4;
  Case made{random_chain(random, {.most_tape_beyond = k % 7, .extra_per_output = k % 5}, layers),
            {}};
  const int w = 1 + k % 3, first = 1 + (k / 7) % 2, last = layers - (k / 3) % 2;
  made.problem = stage_of(first, last, 0, w);
  const StageProblem alone = stage_of(first, last, 0, w);
  const std::int64_t least = stage_least_memory(made.chain, alone);
  std::int64_t all = made.chain.output(first - 1).count();
  for (int i = first; i <= last; ++i) all += made.chain.layer(i).tape.count();
  const std::int64_t most = std::max(least, w * all);
  made.problem.memory = Bytes(std::uniform_int_distribution<std::int64_t>(least, most)(random));
  return made;
}

TEST(Stage, IsNearlyAlwaysTheBestOfAllPrograms) {
  std::mt19937 random(41);
  Score score, persistent;
  for (int k = 0; k < 600; ++k) {
    const auto [chain, problem] = random_case(random, k);
    const double best = stage_optimum(chain, problem);
    StageSolver solver = exact_solver(chain, problem.memory.count());
    const auto result = solver.solve(problem);
    ASSERT_TRUE(std::holds_alternative<StageSolution>(result)) << chain::to_yaml(chain);
    const StageSolution& solution = std::get<StageSolution>(result);
    expect_honest(chain, problem, solution);
    const double found = solution.time().count();
    ASSERT_GE(found, best) << chain::to_yaml(chain);
    EXPECT_EQ(solver.least_time(problem).count(), found);
    score.add(found, best);
    const double stays = stage_optimum(chain, problem, true);
    ASSERT_LE(found, stays) << chain::to_yaml(chain);
    if (std::isfinite(stays)) persistent.add(stays, best);
  }
  std::cout << "stages: " << score << "\n  persistent programs alone: " << persistent << '\n';
  EXPECT_EQ(score.cases, 600);
  EXPECT_GE(score.equal, 0.98 * score.cases);
  EXPECT_LE(score.mean(), 0.0015);
}

TEST(Stage, WithInputsThatStayIsTheBestOfPersistentPrograms) {
  std::mt19937 random(43);
  for (int k = 0; k < 200; ++k) {
    const auto [chain, problem] = random_case(random, k);
    StageSolver solver = exact_solver(chain, problem.memory.count(), false);
    const double found = solver.least_time(problem).count();
    ASSERT_EQ(found, stage_optimum(chain, problem, true)) << chain::to_yaml(chain);
  }
}

TEST(Stage, NamesTheLeastMemoryThatWorks) {
  std::mt19937 random(47);
  int equal = 0;
  for (int k = 0; k < 400; ++k) {
    auto [chain, problem] = random_case(random, k);
    const std::int64_t least = stage_least_memory(chain, problem);
    StageSolver solver = exact_solver(chain, 2 * least + 10);
    const std::int64_t found = solver.least_memory(problem.layers, problem.in_flight).count();
    ASSERT_GE(found, least) << chain::to_yaml(chain) << problem.in_flight;
    equal += found == least ? 1 : 0;
    problem.memory = Bytes(found);
    const auto fits = solver.solve(problem);
    ASSERT_TRUE(std::holds_alternative<StageSolution>(fits));
    expect_honest(chain, problem, std::get<StageSolution>(fits));
    if (found == 0) continue;
    problem.memory = Bytes(found - 1);
    const auto fails = solver.solve(problem);
    ASSERT_TRUE(std::holds_alternative<plan::Infeasible>(fails));
    const auto& reason = std::get<plan::Infeasible>(fails);
    EXPECT_EQ(reason.least_budget.count(), found);
    EXPECT_EQ(reason.available, problem.memory);
    EXPECT_EQ(reason.first_layer, problem.layers.first);
    EXPECT_EQ(reason.last_layer, problem.layers.last);
    EXPECT_NE(reason.where, "");
  }
  std::cout << "least memory of stages: " << equal << " of 400 are the least of all programs\n";
  EXPECT_GE(equal, 392);
}

}  // namespace
}  // namespace trireme::solve
