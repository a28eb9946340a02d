// Shared tables give the same answers as separate ones.
// SPDX-License-Identifier: Apache-2.0
#include "stage/solver_store.h"

#include "partition/instances.h"

#include <gtest/gtest.h>

#include <future>
#include <vector>

namespace trireme::partition {
namespace {

constexpr int kLayers = 12;

solve::StageSolver::Options options_for(std::int64_t memory) {
  return {.largest_memory = Bytes(memory), .slots = 40, .input_may_leave = true};
}

TEST(SolverStore, ASolverIsSharedByChainsWhosePassesCostTheSame) {
  std::mt19937 random(1);
  const chain::Chain chain = small_chain(random, kLayers);
  chain::Chain heavier = chain, slower = chain;
  heavier.layers[3].parameters += Bytes(1000);
  heavier.layers[3].optimizer += Bytes(1000);
  slower.layers[3].forward += Seconds(1);
  SolverStore store;

  const auto solver = store.solver(chain, options_for(400));

  EXPECT_EQ(store.solver(heavier, options_for(400)), solver);
  EXPECT_NE(store.solver(slower, options_for(400)), solver);
  EXPECT_NE(store.solver(chain, options_for(200)), solver);
  EXPECT_EQ(store.solver(chain, options_for(400)), solver);
}

/// With slots larger than a byte and tables shared by several memory sizes, whatever was solved
/// before.
TEST(SolverStore, AnswersDoNotDependOnWhoAskedBeforeOrAsksMeanwhile) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    chain::Chain chain = small_chain(random, kLayers);
    for (chain::LayerCost& layer : chain.layers) {
      layer.output = layer.output * 1000 + Bytes(7);
      layer.tape = layer.output + layer.tape * 1000;
    }
    SolverStore store;
    const auto shared = store.solver(chain, options_for(120'000));
    std::vector<solve::StageProblem> problems;
    for (int k = 0; k < 24; ++k) {
      const int first = between(random, 1, kLayers), last = between(random, first, kLayers);
      problems.push_back({.layers = {first, last},
                          .memory = Bytes(between(random, 20'000, 120'000)),
                          .in_flight = between(random, 1, 3),
                          .link = {}});
    }
    const auto ask = [&] {
      std::vector<double> times;
      for (const solve::StageProblem& problem : problems) {
        const auto answer = shared->solve(problem);
        const auto* const solution = std::get_if<solve::StageSolution>(&answer);
        times.push_back(solution == nullptr ? -1 : solution->time().count());
      }
      return times;
    };
    auto meanwhile = std::async(std::launch::async, ask);
    const std::vector<double> found = ask();
    EXPECT_EQ(meanwhile.get(), found);
    int solved = 0;
    for (std::size_t k = 0; k < problems.size(); ++k) {
      solve::StageSolver own(chain, options_for(120'000));
      const auto answer = own.solve(problems[k]);
      const auto* const solution = std::get_if<solve::StageSolution>(&answer);
      EXPECT_EQ(solution == nullptr ? -1 : solution->time().count(), found[k]) << k;
      solved += solution != nullptr ? 1 : 0;
    }
    EXPECT_GT(solved, 4);
  }
}

}  // namespace
}  // namespace trireme::partition
