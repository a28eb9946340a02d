// solve(): names, arguments, sub-chains.
//
// SPDX-License-Identifier: Apache-2.0
#include "trireme/solve/solve.h"

#include "solve/chains.h"

#include "trireme/core/error.h"
#include "trireme/simulate/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

namespace trireme::solve {
namespace {

using testing::HasSubstr;

std::string refusal(std::string_view solver, const Problem& problem) {
  try {
    solve(solver, problem);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Solve, SuggestsANameThatExists) {
  const chain::Chain chain = without_loss(chain_a());
  EXPECT_THAT(refusal("rotr", whole(chain, 20)), HasSubstr("did you mean 'rotor'"));
}

TEST(Solve, RefusesArgumentsThatASolverCannotRead) {
  const chain::Chain chain = without_loss(chain_a());
  EXPECT_THAT(refusal("periodic 0", whole(chain, 20)), HasSubstr("periodic k"));
  EXPECT_THAT(refusal("periodic two", whole(chain, 20)), HasSubstr("'two'"));
  EXPECT_THAT(refusal("rotor 3", whole(chain, 20)), HasSubstr("'rotor' alone"));
  EXPECT_THAT(refusal("rotor", whole(chain, 20, -1)), HasSubstr("slots: found -1"));
}

TEST(Solve, RefusesChainsThatAreTooLongToSearchExhaustively) {
  std::mt19937 random(31);
  const chain::Chain chain = random_chain(random, {}, 13);
  EXPECT_THAT(refusal("exhaustive", whole(chain, 20)), HasSubstr("rotor_free"));
}

TEST(Solve, GivesASubChainWhatTheSameLayersGetAlone) {
  std::mt19937 random(32);
  std::map<std::string, int> solved;
  for (int k = 0; k < 60; ++k) {
    const chain::Chain chain = random_chain(random, {}, 10);
    const int first = 2 + k % 4, last = first + 1 + k % 5;
    chain::Chain alone{.name = "part", .input = chain.output(first - 1), .layers = {}};
    for (int i = first; i <= last; ++i) alone.layers.push_back(chain.layer(i));
    alone.layers.push_back(chain.layer(1));  // so that `last` is no loss there either
    for (const std::string& solver : solver_names()) {
      for (std::int64_t budget = 5; budget <= 45; budget += 4) {
        Problem part = whole(chain, budget, 500);
        part.first_layer = first;
        part.last_layer = last;
        Problem same = whole(alone, budget, 500);
        same.last_layer = last - first + 1;
        const Result inside = solve(solver, part), outside = solve(solver, same);
        ASSERT_EQ(time_of(inside), time_of(outside)) << solver << ' ' << budget;
        if (!feasible(inside)) {
          EXPECT_EQ(std::get<plan::Infeasible>(inside).least_budget,
                    std::get<plan::Infeasible>(outside).least_budget);
          continue;
        }
        EXPECT_EQ(std::get<Solution>(inside).program.first_layer, first);
        EXPECT_EQ(std::get<Solution>(inside).recompute, std::get<Solution>(outside).recompute);
        ++solved[solver];
      }
    }
  }
  for (const std::string& solver : solver_names()) EXPECT_GT(solved[solver], 200) << solver;
}

TEST(Periodic, KeepsTheInputOfEveryKthLayer) {
  const chain::Chain chain = without_loss(homogeneous(7));
  const auto solution = std::get<Solution>(solve("periodic 3", whole(chain, 100)));
  using program::Op;
  const std::vector<program::Action> forward{
      {Op::kForwardKeep, 1}, {Op::kForward, 2}, {Op::kForward, 3},    {Op::kForwardKeep, 4},
      {Op::kForward, 5},     {Op::kForward, 6}, {Op::kForwardTape, 7}};
  EXPECT_EQ(solution.program.forward, forward);
  EXPECT_EQ(solution.recompute, Seconds(6));
}

TEST(Sqrt, CutsAsManySegmentsAsTheirLength) {
  const chain::Chain chain = without_loss(homogeneous(16));
  const auto solution = std::get<Solution>(solve("sqrt", whole(chain, 100)));
  // Four segments of four layers; all but the last run twice.
  EXPECT_EQ(solution.recompute, Seconds(12));
  // Kept: x[0], x[4], x[8], x[12] and the last segment's tapes.
  EXPECT_EQ(solution.kept, Bytes(4 + 4 * 3));
}

TEST(RecomputeAll, RunsEveryLayerTwice) {
  const chain::Chain chain = without_loss(homogeneous(5));
  const auto solution = std::get<Solution>(solve("recompute_all", whole(chain, 100)));
  EXPECT_EQ(solution.recompute, Seconds(5));
  EXPECT_EQ(solution.time, Seconds(5 * 3 + 5));
}

TEST(KeepAll, RunsNothingTwice) {
  const chain::Chain chain = without_loss(homogeneous(5));
  const auto solution = std::get<Solution>(solve("keep_all", whole(chain, 100)));
  EXPECT_EQ(solution.recompute, Seconds(0));
  EXPECT_EQ(solution.kept, Bytes(1 + 5 * 3));
}

}  // namespace
}  // namespace trireme::solve
