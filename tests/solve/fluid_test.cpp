// Planning in the fluid relaxation against a search through all plans, and against known values.
//
// SPDX-License-Identifier: Apache-2.0
#include "trireme/solve/fluid.h"

#include "solve/copy_problems.h"
#include "solve/fluid_oracle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <limits>
#include <random>
#include <vector>

namespace trireme::solve {
namespace {

double fluid_time(const Problem& problem, FluidChoices choices) {
  const auto plan = plan_fluid(problem, choices);
  return plan ? plan->time.count() : kNone;
}

void expect_same(double found, double expected, const std::string& where) {
  if (std::isinf(expected)) {
    EXPECT_EQ(found, expected) << where;
  } else {
    EXPECT_NEAR(found, expected, 1e-9 * (1 + expected)) << where;
  }
}

// Computed with the formulas of POFO by exhaustive search, in a program of its own (Python), before
// this one was written; rounded to five digits.
struct Row {
  std::int64_t memory;
  double rate, both, offload_only;
};
const std::vector<Row> kChainA{{9, 0.25, 38, kNone},
                               {9, 0.5, 36, kNone},
                               {9, 1, 34, kNone},
                               {9, 2, 33, kNone},
                               {9, 1000, 32.002, kNone},
                               {10, 0.25, 34, kNone},
                               {10, 0.5, 34, kNone},
                               {10, 1, 33, kNone},
                               {10, 2, 31.5, kNone},
                               {10, 1000, 29.005, kNone},
                               {11, 0.25, 32, 72},
                               {11, 0.5, 31, 44},
                               {11, 1, 31, 32},
                               {11, 2, 29, 29},
                               {11, 1000, 26.006, 26.006},
                               {12, 0.25, 31, 68},
                               {12, 0.5, 31, 40},
                               {12, 1, 30, 30},
                               {12, 2, 28, 28},
                               {12, 1000, 26.004, 26.004},
                               {13, 0.25, 29, 50},
                               {13, 0.5, 29, 32},
                               {13, 1, 28, 28},
                               {13, 2, 27, 27},
                               {13, 1000, 26.002, 26.002},
                               {14, 0.25, 29, 46},
                               {14, 0.5, 28, 30},
                               {14, 1, 27, 27},
                               {14, 2, 26.5, 26.5},
                               {14, 1000, 26.001, 26.001},
                               {15, 0.25, 27, 41},
                               {15, 0.5, 27, 28},
                               {15, 1, 26, 26},
                               {15, 2, 26, 26},
                               {15, 1000, 26, 26},
                               {16, 0.25, 27, 39},
                               {16, 0.5, 26, 26},
                               {16, 1, 26, 26},
                               {16, 2, 26, 26},
                               {16, 1000, 26, 26},
                               {18, 0.25, 26, 26},
                               {18, 0.5, 26, 26},
                               {18, 1, 26, 26},
                               {18, 2, 26, 26},
                               {18, 1000, 26, 26}};

TEST(Fluid, FindsTheKnownTimesOnChainA) {
  const chain::Chain chain = with_loss(chain_a());
  for (const Row& row : kChainA) {
    const Problem problem = linked(chain, row.memory, row.rate, row.rate);
    const double both = fluid_time(problem, FluidChoices::kOffloadAndRecompute);
    EXPECT_NEAR(both, row.both, 5e-4) << row.memory << ' ' << row.rate;
    const double offload = fluid_time(problem, FluidChoices::kOffload);
    if (std::isinf(row.offload_only)) {
      EXPECT_EQ(offload, kNone) << row.memory << ' ' << row.rate;
    } else {
      EXPECT_NEAR(offload, row.offload_only, 5e-4) << row.memory << ' ' << row.rate;
    }
  }
}

TEST(Fluid, ItsOracleFindsThemToo) {
  const chain::Chain chain = with_loss(chain_a());
  for (const Row& row : kChainA) {
    FluidOracle oracle(chain, row.memory, row.rate, row.rate);
    EXPECT_NEAR(oracle.offload_and_recompute(), row.both, 5e-4) << row.memory << ' ' << row.rate;
  }
}

TEST(Fluid, FindsTheKnownPlansOnChainA) {
  using program::Op;
  const chain::Chain chain = with_loss(chain_a());
  const auto forward = [&](std::int64_t budget, double rate) {
    return plan_fluid(linked(chain, budget, rate, rate), FluidChoices::kOffloadAndRecompute)
        ->program.forward;
  };
  // x[0] leaves with a kept tape of 1, tape 1 leaves with a kept tape of 2; layer 3 is recomputed.
  const std::vector<program::Action> two_leave{
      {Op::kForwardTape, 1}, {Op::kOffload, 0},     {Op::kForwardTape, 2}, {Op::kOffloadTape, 1},
      {Op::kForwardKeep, 3}, {Op::kForwardTape, 4}, {Op::kForwardTape, 5}};
  EXPECT_EQ(forward(12, 1), two_leave);
  const std::vector<program::Action> input_leaves{{Op::kForwardKeep, 1}, {Op::kOffload, 0},
                                                  {Op::kForward, 2},     {Op::kForwardTape, 3},
                                                  {Op::kForwardTape, 4}, {Op::kForwardTape, 5}};
  EXPECT_EQ(forward(11, 0.5), input_leaves);
  const std::vector<program::Action> three_leave{
      {Op::kForwardTape, 1}, {Op::kOffload, 0}, {Op::kForwardKeep, 2}, {Op::kOffloadTape, 1},
      {Op::kForwardTape, 3}, {Op::kOffload, 2}, {Op::kForwardTape, 4}, {Op::kForwardTape, 5}};
  EXPECT_EQ(forward(10, 2), three_leave);
}

// The oracle tries every sequence in what is recomputed, the plan only those that take least time
// for some memory; the oracle may also end with a run to the last layer whose output is passed on,
// and offload the last layer's input, which the plan never does. None of that ever helps.
TEST(Fluid, EqualsTheBestOfAllPlansOnRandomChains) {
  std::mt19937 random(11);
  int fit = 0, recompute_helps = 0;
  for (int k = 0; k < 900; ++k) {
    Shape shape{.most_layers = 5, .lean_tapes = k % 4 == 3};
    if (k % 3 == 0) shape.extra_per_output = 0;
    const chain::Chain chain = random_chain(random, shape);
    const auto all = std::get<Solution>(solve("keep_all", whole(chain, 1 << 30)));
    const std::int64_t budget = 1 + all.peak.count() * (45 + static_cast<int>(random() % 55)) / 100;
    const double out = std::exp2(static_cast<double>(random() % 7) - 3);
    const double in = k % 2 == 0 ? out : std::exp2(static_cast<double>(random() % 7) - 3);
    FluidOracle oracle(chain, budget, out, in);
    const double both = oracle.offload_and_recompute(), offload = oracle.offload_only();
    const Problem problem = linked(chain, budget, out, in);
    const std::string where = "chain " + std::to_string(k);
    expect_same(fluid_time(problem, FluidChoices::kOffload), offload, where);
    expect_same(fluid_time(problem, FluidChoices::kOffloadAndRecompute), both, where);
    fit += std::isfinite(both) ? 1 : 0;
    recompute_helps += both < offload ? 1 : 0;
  }
  std::cout << "fluid plans: " << fit << " of 900 chains fit, recomputation helps in "
            << recompute_helps << ", all equal to the best of all plans\n";
  EXPECT_GT(fit, 400);
  EXPECT_GT(recompute_helps, 200);
}

TEST(Fluid, TakesNoLessTimeThanTheLayers) {
  const chain::Chain chain = with_loss(chain_a());
  EXPECT_EQ(fluid_time(linked(chain, 100, 1, 1), FluidChoices::kOffload), 26);
}

}  // namespace
}  // namespace trireme::solve
