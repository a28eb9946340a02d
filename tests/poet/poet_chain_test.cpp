// poet_chain against poet, which is exact, and what it promises of graphs that are no chains.
// SPDX-License-Identifier: Apache-2.0
#include "poet/graphs.h"
#include "poet/random_chains.h"
#include "support/trials.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/poet/solve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <random>
#include <string>

namespace trireme::poet {
namespace {

using graph::Lanes;

/// What a comparison found.
struct Compared {
  int feasible = 0, infeasible = 0;
  int equal = 0;
  int missed = 0;             ///< poet has a schedule, poet_chain has none
  double sum = 0, worst = 0;  ///< by how much more poet_chain takes, relative

  double mean() const { return feasible > 0 ? sum / feasible : 0; }
};

double value_of(const Solution& solution, Objective objective) {
  const graph::Outcome& outcome = solution.outcome;
  return objective == Objective::kEnergy ? outcome.energy().count() : outcome.time.count();
}

void note(const Freedom& freedom, const Solution& best, const Solution& found,
          const std::string& where, Compared& compared) {
  EXPECT_TRUE(best.is_optimal) << where;
  const double more = value_of(found, freedom.objective) / value_of(best, freedom.objective) - 1;
  EXPECT_GE(more, -1e-6) << where;
  ++compared.feasible;
  compared.equal += more < 1e-6 ? 1 : 0;
  compared.sum += std::max(more, 0.0);
  compared.worst = std::max(compared.worst, more);
}

void compare(const Instance& instance, const std::string& where, Compared& compared) {
  const auto& [problem, freedom] = instance;
  const Result exact = solve("poet", problem, freedom);
  const Result tables = solve("poet_chain", problem, freedom);
  const auto* const best = std::get_if<Solution>(&exact);
  const auto* const found = std::get_if<Solution>(&tables);
  if (best == nullptr) {
    ++compared.infeasible;
    ASSERT_EQ(found, nullptr) << where;
    const auto& why = std::get<Infeasible>(exact);
    const auto& mine = std::get<Infeasible>(tables);
    EXPECT_EQ(mine.least_memory, why.least_memory) << where;
    EXPECT_EQ(mine.least_time > Seconds(0), why.least_time > Seconds(0)) << where;
    return;
  }
  if (found == nullptr) {
    ++compared.missed;
    return;
  }
  note(freedom, *best, *found, where, compared);
}

Compared compare(const ChainKind& kind, int count, unsigned seed) {
  Compared all;
  std::mt19937 random(seed);
  for (int k = 0; k < count; ++k) {
    compare(random_chain_instance(random, kind), concat("chain ", k, " of seed ", seed), all);
  }
  std::cout << count << " chains of up to " << kind.most_layers << " layers: " << all.equal
            << " of " << all.feasible << " as good as poet, " << all.missed << " missed, "
            << to_text(100 * all.mean()) << " % more in the mean, " << to_text(100 * all.worst)
            << " % at worst, " << all.infeasible << " infeasible\n";
  return all;
}

/// 400 chains in a build without sanitizers, of which some 300 can run.
constexpr int kChains = trials(400);

void expect_close(const Compared& all, double most_in_the_mean) {
  EXPECT_GE(all.equal, 0.99 * all.feasible);
  EXPECT_LE(all.mean(), most_in_the_mean);
  EXPECT_EQ(all.missed, 0);
  EXPECT_GE(all.feasible, kChains / 2);
  EXPECT_GE(all.infeasible, kChains / 10);
}

TEST(PoetChain, IsAsGoodAsPoetInTurn) {
  const Compared all = compare({.most_layers = 7}, kChains, 11);
  expect_close(all, 1e-6);
  EXPECT_EQ(all.equal, all.feasible);
}

TEST(PoetChain, IsAsGoodAsPoetWithDeadlines) {
  expect_close(compare({.most_layers = 7, .has_deadline = true}, kChains + kChains / 2, 12), 0.005);
}

TEST(PoetChain, IsNearlyAsGoodBesideCompute) {
  expect_close(compare({.most_layers = 4, .lanes = Lanes::kBeside}, kChains, 13), 0.005);
  expect_close(
      compare({.most_layers = 4, .has_deadline = true, .lanes = Lanes::kBeside}, kChains, 14),
      0.005);
}

TEST(PoetChain, CountsWhatIsOutside) {
  Compared all;
  std::mt19937 random(15);
  for (int k = 0; k < kChains / 2; ++k) {
    Instance instance = random_chain_instance(random, {.most_layers = 6});
    instance.problem.capacity = Bytes(draw(random, 1, 12));
    const Result exact = solve("poet", instance.problem, instance.freedom);
    const Result tables = solve("poet_chain", instance.problem, instance.freedom);
    const auto* const found = std::get_if<Solution>(&tables);
    if (found == nullptr) continue;
    ASSERT_TRUE(std::holds_alternative<Solution>(exact)) << k;
    note(instance.freedom, std::get<Solution>(exact), *found, concat("chain ", k), all);
  }
  EXPECT_GT(all.feasible, kChains / 10);
  EXPECT_LE(all.mean(), 0.005);
}

// Of 161 and of 201 nodes.
TEST(PoetChain, PlansLongChains) {
  for (const int layers : {trials(80, 0.25), trials(100, 0.25)}) {
    const graph::Problem problem = unit_chain(layers, layers / 4, 0.25);
    const Result result = solve("poet_chain", problem, {});
    ASSERT_TRUE(std::holds_alternative<Solution>(result)) << layers;
    const graph::Outcome& outcome = std::get<Solution>(result).outcome;
    const graph::Outcome greedy = std::get<Solution>(solve("greedy", problem, {})).outcome;
    EXPECT_LE(outcome.energy(), greedy.energy()) << layers;
  }
}

TEST(PoetChain, SaysWhyAGraphIsNoChain) {
  const auto why = [](const graph::Graph& graph) {
    graph::Problem problem = unit_chain(2, 0, 1);
    problem.graph = graph;
    problem.costs.resize(graph.nodes.size());
    try {
      solve("poet_chain", problem, {});
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("it is one");
  };
  const graph::Graph chain = unit_chain(3, 0, 1).graph;
  EXPECT_EQ(why(chain), "it is one");
  graph::Graph skips = chain;
  skips.nodes[3].inputs = {1, 2};
  EXPECT_THAT(why(skips),
              testing::HasSubstr("node 3 (layer3) does not read node 2 (layer2) alone"));
  graph::Graph far = chain;
  far.nodes[6].inputs = {0, 1, 3, 5};
  EXPECT_THAT(why(far), testing::HasSubstr("node 6 (gradient1) reads node 3 (layer3)"));
  graph::Graph lone = chain;
  lone.nodes[6].inputs = {0, 1};
  EXPECT_THAT(why(lone), testing::HasSubstr("node 6 (gradient1) does not read node 5 (gradient2)"));
  graph::Graph short_of_one = chain;
  short_of_one.nodes.pop_back();
  EXPECT_THAT(why(short_of_one), testing::HasSubstr("4 forward nodes and 2 backward ones"));
}

}  // namespace
}  // namespace trireme::poet
