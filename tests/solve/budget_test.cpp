// Laws that hold for every solver: no program exceeds its budget, what is called infeasible is,
// more memory never costs time.
//
// SPDX-License-Identifier: Apache-2.0
#include "solve/chains.h"
#include "support/trials.h"

#include "trireme/core/text.h"
#include "trireme/simulate/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace trireme::solve {
namespace {

// Sizes that do not divide by slots, temporaries larger than anything kept, items of no bytes.
chain::Chain adversarial(std::mt19937& random, int number, int most_layers) {
  const Shape shape{.most_layers = most_layers,
                    .most_output = number % 2 == 0 ? 7 : 1'000'003,
                    .most_tape_beyond = number % 5 == 0   ? 0
                                        : number % 2 == 0 ? 20
                                                          : 3'000'017,
                    .extra_per_output = number % 3,
                    .lean_tapes = number % 7 == 3,
                    .most_time = 50};
  return random_chain(random, shape);
}

Bytes total(const chain::Chain& chain) {
  Bytes bytes = chain.input;
  for (const chain::LayerCost& layer : chain.layers) {
    bytes += layer.tape + layer.output + layer.backward_transient;
  }
  return bytes;
}

std::int64_t some_budget(std::mt19937& random, const chain::Chain& chain) {
  return std::uniform_int_distribution<std::int64_t>(0, total(chain).count())(random);
}

// Checks a result by a replay of its own.
void expect_honest(const Problem& problem, const Result& result, const std::string& what) {
  if (const auto* none = std::get_if<plan::Infeasible>(&result)) {
    EXPECT_GT(none->least_budget, problem.budget) << what;
    EXPECT_EQ(none->available, problem.budget) << what;
    EXPECT_FALSE(none->where.empty()) << what;
    return;
  }
  const Solution& solution = std::get<Solution>(result);
  const simulate::Replay replay = simulate::replay(*problem.chain, solution.program);
  ASSERT_FALSE(replay.fault) << what << simulate::to_text(*replay.fault);
  EXPECT_LE(replay.peak, problem.budget) << what;
  EXPECT_EQ(replay.peak, solution.peak) << what;
  EXPECT_EQ(replay.time, solution.time) << what;
}

struct Load {
  std::string solver;
  int chains, most_layers, slots;
};

class EverySolver : public testing::TestWithParam<Load> {};

TEST_P(EverySolver, KeepsTheBudgetOnTenThousandChains) {
  const auto& [solver, all_chains, most_layers, slots] = GetParam();
  const int chains = trials(all_chains);
  std::mt19937 random(21);
  int solved = 0;
  for (int k = 0; k < chains; ++k) {
    const chain::Chain chain = adversarial(random, k, most_layers);
    Problem problem = whole(chain, some_budget(random, chain), slots);
    problem.first_layer = std::uniform_int_distribution<int>(1, chain.length())(random) / 3 + 1;
    problem.first_layer = std::min(problem.first_layer, chain.length());
    const Result result = solve(solver, problem);
    ASSERT_NO_FATAL_FAILURE(expect_honest(problem, result, concat(solver, ", chain ", k)));
    solved += feasible(result) ? 1 : 0;
  }
  std::cout << solver << ": " << solved << " of " << chains << " solved, none over its budget\n";
  EXPECT_GT(solved, chains / 4);
}

INSTANTIATE_TEST_SUITE_P(
    Adversarial, EverySolver,
    testing::Values(Load{"keep_all", 10'000, 40, 500}, Load{"recompute_all", 10'000, 40, 500},
                    Load{"periodic 3", 10'000, 40, 500}, Load{"sqrt", 10'000, 40, 500},
                    Load{"revolve", 10'000, 40, 500}, Load{"min_peak", 10'000, 40, 500},
                    Load{"min_peak sum", 10'000, 40, 500}, Load{"rotor", 10'000, 40, 100},
                    Load{"rotor_free", 10'000, 40, 60}, Load{"exhaustive", 10'000, 5, 500}),
    [](const auto& load) {
      std::string name = load.param.solver;
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

TEST(Infeasible, NamesTheLeastBudgetExactly) {
  std::mt19937 random(22);
  const std::vector<std::string> solvers{"keep_all", "recompute_all", "periodic 2",
                                         "sqrt",     "revolve",       "min_peak",
                                         "rotor",    "rotor_free",    "exhaustive"};
  for (int k = 0; k < 300; ++k) {
    const chain::Chain chain = adversarial(random, k, 5);
    for (const std::string& solver : solvers) {
      const auto none = std::get<plan::Infeasible>(solve(solver, whole(chain, -1)));
      const std::int64_t least = none.least_budget.count();
      // Few slots: rounding must not make a feasible budget infeasible.
      EXPECT_TRUE(feasible(solve(solver, whole(chain, least, 7)))) << solver << " chain " << k;
      EXPECT_FALSE(feasible(solve(solver, whole(chain, least - 1, 7)))) << solver << " chain " << k;
    }
  }
}

TEST(Infeasible, SaysWhichLayerNeedsTheMemory) {
  chain::Chain chain = without_loss(chain_b());
  chain.layers[3].name = "wide";
  chain.layers[3].backward_transient = Bytes(100);
  const auto none = std::get<plan::Infeasible>(solve("rotor", whole(chain, 50)));
  EXPECT_EQ(none.where, "layer 4 (wide): backward");
  EXPECT_EQ(none.first_layer, 1);
  EXPECT_EQ(none.last_layer, 6);
}

TEST(MoreMemory, NeverCostsTime) {
  std::mt19937 random(23);
  std::map<std::string, int> solved;
  for (int k = 0; k < 60; ++k) {
    const chain::Chain chain = random_chain(random, {.most_layers = 6});
    for (const std::string& solver : solver_names()) {
      double before = std::numeric_limits<double>::infinity();
      for (std::int64_t budget = 0; budget <= total(chain).count(); ++budget) {
        const double time = time_of(solve(solver, whole(chain, budget)));
        if (time < 0) {
          ASSERT_TRUE(std::isinf(before)) << solver << " fails with more memory";
          continue;
        }
        ASSERT_LE(time, before) << solver << ' ' << budget;
        before = time;
        ++solved[solver];
      }
    }
  }
  for (const std::string& solver : solver_names()) EXPECT_GT(solved[solver], 500) << solver;
}

TEST(Budget, ThatKeepsEverythingCostsNoRecomputation) {
  std::mt19937 random(24);
  for (int k = 0; k < 300; ++k) {
    const chain::Chain chain = adversarial(random, k, 30);
    const auto all = std::get<Solution>(solve("keep_all", whole(chain, total(chain).count())));
    for (const char* solver : {"rotor", "rotor_free"}) {
      const Result exact = solve(solver, whole(chain, all.peak.count(), 500));
      ASSERT_TRUE(feasible(exact));
      EXPECT_GE(std::get<Solution>(exact).time, all.time);
      // Rounding up thirty tapes wastes at most thirty slots, most of which are spent again.
      const Result ample = solve(solver, whole(chain, all.peak.count() * 11 / 10, 500));
      EXPECT_EQ(std::get<Solution>(ample).recompute, Seconds(0)) << solver << ' ' << k;
    }
  }
}

TEST(Slots, CostLittleTimeAgainstExactBytes) {
  std::mt19937 random(25);
  double coarse = 0, fine = 0, exact = 0;
  for (int k = 1; k < 60; k += 2) {
    const chain::Chain chain = adversarial(random, k, 16);
    const std::int64_t all =
        std::get<Solution>(solve("keep_all", whole(chain, total(chain).count()))).peak.count();
    const Result best = solve("rotor", whole(chain, all * 6 / 10, 0));
    if (!feasible(best)) continue;
    const double fifty = time_of(solve("rotor", whole(chain, all * 6 / 10, 50)));
    const double thousand = time_of(solve("rotor", whole(chain, all * 6 / 10, 1000)));
    EXPECT_GE(fifty, time_of(best) * (1 - 1e-12));
    EXPECT_GE(thousand, time_of(best) * (1 - 1e-12));
    coarse += fifty;
    fine += thousand;
    exact += time_of(best);
  }
  std::cout << "50 slots " << coarse / exact << ", 1000 slots " << fine / exact
            << " times the exact plan\n";
  EXPECT_LT(coarse, 1.05 * exact);
  EXPECT_LT(fine, 1.002 * exact);
}

}  // namespace
}  // namespace trireme::solve
