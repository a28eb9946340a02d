// Early-stop recomputation (retapes) against the exhaustive search.
// SPDX-License-Identifier: Apache-2.0
#include "solve/chains.h"
#include "solve/stage_oracle.h"
#include "solve/table_times.h"

#include "trireme/solve/tables.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <random>

namespace trireme::solve {
namespace {

chain::Chain chain_with_retapes(std::mt19937& random, Saves saves, int most_layers = 6) {
  return with_retapes(
      random, random_chain(random, {}, std::uniform_int_distribution<int>(2, most_layers)(random)),
      saves);
}

Problem problem_of(std::mt19937& random, const chain::Chain& chain, int number) {
  Problem problem = whole(chain, 0, 0);
  if (number % 3 == 0 && chain.length() > 2) --problem.last_layer;
  problem.budget = Bytes(-1);
  const auto least = std::get<plan::Infeasible>(solve("exhaustive", problem)).least_budget.count();
  problem.budget = Bytes(std::int64_t{1} << 40);
  const auto most = std::get<Solution>(solve("keep_all", problem)).peak.count();
  problem.budget = Bytes(std::uniform_int_distribution<std::int64_t>(least, most)(random));
  return problem;
}

TEST(RotorWithRetapes, EqualsTheBestPersistentScheduleWhereTheySaveTime) {
  std::mt19937 random(71);
  int feasible = 0, faster = 0;
  for (int k = 0; k < 800; ++k) {
    chain::Chain chain = chain_with_retapes(random, Saves::kTime);
    const Problem problem = problem_of(random, chain, k);
    const double rotor = time_of(solve("rotor", problem));
    ASSERT_EQ(rotor, time_of(solve("exhaustive persistent", problem)))
        << chain::to_yaml(chain) << problem.budget.count();
    if (rotor < 0) continue;
    ++feasible;
    for (chain::LayerCost& layer : chain.layers) layer.retape.reset();
    faster += rotor < time_of(solve("rotor", problem)) ? 1 : 0;
  }
  std::cout << "rotor with retapes: " << feasible << " feasible cases, all equal to the best, "
            << faster << " faster than without\n";
  EXPECT_GT(feasible, 600);
  EXPECT_GT(faster, feasible / 3);
}

// The exact tables count the bytes that a retape saves; tables of slots only its time.
TEST(RotorWithRetapes, IsNearTheOptimumWhereTheySaveBytesToo) {
  std::mt19937 random(72);
  int feasible = 0, equal = 0;
  double gap = 0;
  for (int k = 0; k < 600; ++k) {
    const chain::Chain chain = chain_with_retapes(random, Saves::kTimeAndBytes);
    const Problem problem = problem_of(random, chain, k);
    const Result result = solve("rotor_free", problem);
    const double best = time_of(solve("exhaustive", problem)), free = time_of(result);
    if (free < 0) continue;
    ASSERT_GE(free, best) << chain::to_yaml(chain) << problem.budget.count();
    ASSERT_LE(std::get<Solution>(result).peak, problem.budget);
    ++feasible;
    equal += free == best ? 1 : 0;
    gap += best > 0 ? free / best - 1 : 0;
  }
  std::cout << "rotor_free with leaner retapes: " << equal << " of " << feasible
            << " optimal, mean gap " << 100 * gap / feasible << " %\n";
  EXPECT_GT(feasible, 400);
  EXPECT_GE(equal, 0.99 * feasible);
  EXPECT_LE(gap / feasible, 0.001);
}

TEST(TablesWithRetapes, AgreeWithExactStepFunctions) {
  std::mt19937 random(73);
  for (int k = 0; k < 60; ++k) {
    const chain::Chain chain = chain_with_retapes(random, Saves::kTime, 20);
    const bool free = k % 2 == 0;
    const Tables tables(
        chain, 1, chain.length(),
        {.freedom = free ? Freedom::kInputMayLeave : Freedom::kInputStays, .top = 60});
    const FirstPass pass(tables, chain.length());
    for (int m = 0; m <= 60; m += 4) {
      const double time = time_of(pass, 1, m).count();
      EXPECT_EQ(
          std::isfinite(time) ? time : -1,
          time_of(solve(free ? "rotor_free" : "rotor", whole(chain, m + chain.input.count(), 0))))
          << chain::to_yaml(chain) << m;
    }
  }
}

TEST(StagesWithRetapes, AreNearlyAlwaysOptimal) {
  std::mt19937 random(74);
  int feasible = 0, equal = 0;
  for (int k = 0; k < 300; ++k) {
    const chain::Chain chain = chain_with_retapes(random, Saves::kTime, 5);
    StageProblem stage{
        .layers = {1, chain.length() - 1}, .memory = {}, .in_flight = 2 + k % 2, .link = {}};
    const std::int64_t least = stage_least_memory(chain, stage);
    stage.memory = Bytes(std::uniform_int_distribution<std::int64_t>(least, 2 * least + 4)(random));
    StageSolver solver(chain, {.largest_memory = stage.memory, .slots = 0});
    const auto result = solver.solve(stage);
    const auto* const found = std::get_if<StageSolution>(&result);
    const double best = stage_optimum(chain, stage);
    if (found == nullptr) continue;
    ASSERT_GE(found->time().count(), best) << chain::to_yaml(chain) << stage.memory.count();
    ++feasible;
    equal += found->time().count() == best ? 1 : 0;
  }
  std::cout << "stages with retapes: " << equal << " of " << feasible << " optimal\n";
  EXPECT_GT(feasible, 250);
  EXPECT_GE(equal, 0.97 * feasible);
}

TEST(StagesWithRetapes, CountBytesThatRetapesSaveInTheirLeastMemory) {
  std::mt19937 random(76);
  int equal = 0, less = 0;
  constexpr int kTrials = 300;
  for (int k = 0; k < kTrials; ++k) {
    chain::Chain chain = chain_with_retapes(random, Saves::kTimeAndBytes, 5);
    for (chain::LayerCost& layer : chain.layers) {
      if (layer.retape) layer.retape->backward_transient = layer.backward_transient;
    }
    const StageProblem stage = stage_of(1, chain.length(), 1000, 1 + k % 3);
    const auto least_of = [&] {
      return exact_solver(chain, 1000).least_memory({1, chain.length()}, stage.in_flight).count();
    };
    const std::int64_t least = least_of(), best = stage_least_memory(chain, stage);
    ASSERT_GE(least, best) << chain::to_yaml(chain);
    equal += least == best ? 1 : 0;
    for (chain::LayerCost& layer : chain.layers) layer.retape.reset();
    less += least < least_of() ? 1 : 0;
  }
  std::cout << "least memory of stages with leaner retapes: " << equal << " of " << kTrials
            << " the least of all programs, " << less << " below that of whole tapes\n";
  EXPECT_GE(equal, 0.99 * kTrials);
  EXPECT_GE(less, 0.1 * kTrials);
}

TEST(StagesWithRetapes, AreNeverSlowerThanTheirLeastTime) {
  std::mt19937 random(77);
  int feasible = 0;
  for (int k = 0; k < 300; ++k) {
    const chain::Chain chain = chain_with_retapes(random, Saves::kTimeAndBytes, 6);
    const int w = 1 + k % 3;
    StageSolver solver(chain, {.largest_memory = Bytes(100), .slots = k % 2 == 0 ? 0 : 30});
    for (int memory = 4; memory <= 100; memory += 6) {
      const StageProblem stage = stage_of(1, chain.length(), memory, w);
      const auto result = solver.solve(stage);
      const auto* const found = std::get_if<StageSolution>(&result);
      const double least = solver.least_time(stage).count();
      EXPECT_EQ(std::isfinite(least), found != nullptr) << chain::to_yaml(chain) << memory;
      if (found == nullptr) continue;
      EXPECT_LE(found->time().count(), least * (1 + 1e-6)) << chain::to_yaml(chain) << memory;
      ++feasible;
    }
  }
  EXPECT_GT(feasible, 2000);
}

/// Tables in slots count whole tapes: on a short chain exact ones are asked as well.
TEST(RotorInSlots, UsesWhatARetapeSaves) {
  chain::Chain chain{
      .name = "two", .input = Bytes(0), .layers = {layer(1, 0, 0, 16), layer(1, 0, 0, 54)}};
  chain.layers[1].retape = chain::Retape{.time = Seconds(0.004), .tape = Bytes(23)};
  for (const std::string solver : {"rotor", "rotor_free"}) {
    for (const int memory : {53, 54, 69}) {
      Problem problem = whole(chain, memory);
      problem.slots = 500;
      EXPECT_DOUBLE_EQ(time_of(solve(solver, problem)), 2.004) << memory;
    }
  }
}

TEST(RecomputeAllWithRetapes, RunsEveryLayerOnceAndAPartOfItAgain) {
  std::mt19937 random(75);
  const chain::Chain chain = chain_with_retapes(random, Saves::kTimeAndBytes);
  double time = 0;
  for (const chain::LayerCost& layer : chain.layers)
    time += (layer.forward + layer.again().time + layer.backward).count();

  EXPECT_DOUBLE_EQ(time_of(solve("recompute_all", whole(chain, 1'000'000))), time);
}

}  // namespace
}  // namespace trireme::solve
