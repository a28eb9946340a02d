// Solver `auto`: no solver asked for by name is faster.
// SPDX-License-Identifier: Apache-2.0
#include "partition/planned.h"
#include "support/trials.h"

#include "trireme/solve/solve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

namespace trireme::partition {
namespace {

/// All solvers but the exhaustive ones.
std::vector<std::string> names_of_solvers() {
  std::vector<std::string> names = solve::solver_names();
  std::erase(names, "exhaustive");
  names.insert(names.end(), joint_solver_names().begin(), joint_solver_names().end());
  return names;
}

/// Step time of this solver; empty where it has no plan.
std::optional<double> step_by(Question question, const std::string& solver) {
  question.solver = solver;
  const Tried tried = try_to(solver, [&] { return partition::plan(question); });
  if (tried.plan() == nullptr) return std::nullopt;
  plan::Plan plan = *tried.plan();
  plan.alternatives.clear();  // which may be faster than a solver that was asked for by name
  expect_sound(question, plan);
  return plan.step.count();
}

/// By how much `auto` may be slower than a solver that puts several stages on a rank: it takes such
/// a plan only if it gains more.
double allowance(const std::string& solver) {
  return (solver == "madpipe" ? 1.02 : 1) + 1e-9;
}

/// `auto` does not try several stages on a rank where links are free.
bool is_thought_of(const Question& question, const std::string& solver) {
  return solver != "madpipe" || question.platform.default_link.rate > BytesPerSecond(0);
}

/// Compares `auto` with every solver by name on questions of these sizes; returns how many.
int compare(unsigned seed, const Sizes& sizes) {
  std::mt19937 random(seed);
  int compared = 0;
  for (int trial = 0; trial < trials(100); ++trial) {
    const Question question = small_question(random, sizes);
    const std::optional<double> best = step_by(question, "auto");
    for (const std::string& solver : names_of_solvers()) {
      if (!is_thought_of(question, solver)) continue;
      const std::optional<double> named = step_by(question, solver);
      if (!named) continue;
      EXPECT_TRUE(best && *best <= *named * allowance(solver))
          << solver << ", trial " << trial << ": " << best.value_or(0) << " after " << *named;
      ++compared;
    }
  }
  return compared;
}

class AutoOfSomeSeeds : public testing::TestWithParam<int> {};

TEST_P(AutoOfSomeSeeds, IsNeverSlowerThanASolverByName) {
  const int compared = compare(static_cast<unsigned>(GetParam()), {.least_layers = 2,
                                                                   .most_layers = 7,
                                                                   .least_stages = 2,
                                                                   .most_stages = 4,
                                                                   .most_micro_batches = 8,
                                                                   .copies = GetParam() % 2 == 1});
  EXPECT_GT(compared, trials(300));
}

// With one stage the other solvers plan one micro-batch, "joint" all of a step.
TEST(Auto, OfOneStageIsNeverSlowerThanASolverByName) {
  const int compared = compare(5, {.least_layers = 3,
                                   .most_layers = 9,
                                   .least_stages = 1,
                                   .most_stages = 1,
                                   .most_micro_batches = 8,
                                   .copies = true});
  EXPECT_GT(compared, trials(300));
}

INSTANTIATE_TEST_SUITE_P(Seeds, AutoOfSomeSeeds, testing::Values(1, 2, 3, 4));

}  // namespace
}  // namespace trireme::partition
