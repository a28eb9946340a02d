// SPDX-License-Identifier: Apache-2.0
#include "trireme/report/sweep.h"

#include "report/well_formed.h"

#include "trireme/report/trade_off.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace trireme::report {
namespace {

using testing::HasSubstr;
using testing::Not;

SweepPoint fits(std::int64_t budget, std::string solver, double step) {
  return {.budget = Bytes(budget),
          .solver = std::move(solver),
          .cost = SweepCost{.step = Seconds(step),
                            .recompute = Seconds(step - 4),
                            .peak = Bytes(budget),
                            .kept = Bytes(5),
                            .moved = Bytes(0)},
          .least_budget = {}};
}

SweepPoint too_large(std::int64_t budget, std::string solver, std::int64_t least) {
  return {.budget = Bytes(budget),
          .solver = std::move(solver),
          .cost = {},
          .least_budget = Bytes(least)};
}

Sweep sample() {
  return {.chain_name = "a<b",
          .micro_batches = 1,
          .ideal = Seconds(4),
          .solvers = {"keep_all", "rotor", "periodic 3"},
          .points = {too_large(10, "keep_all", 20), fits(10, "rotor", 5),
                     too_large(10, "periodic 3", 30), fits(20, "keep_all", 4), fits(20, "rotor", 4),
                     too_large(20, "periodic 3", 30)}};
}

TEST(SweepCsv, HasALinePerSolverAndBudget) {
  EXPECT_EQ(to_csv(sample()),
            "budget_bytes,solver,step_s,overhead,peak_bytes,kept_bytes,recompute_s,moved_bytes,"
            "least_budget_bytes\n"
            "10,keep_all,,,,,,,20\n"
            "10,rotor,5,0.25,10,5,1,0,\n"
            "10,periodic 3,,,,,,,30\n"
            "20,keep_all,4,0,20,5,0,0,\n"
            "20,rotor,4,0,20,5,0,0,\n"
            "20,periodic 3,,,,,,,30\n");
}

TEST(SweepCsv, SaysNoOverheadWhereNothingTakesTime) {
  Sweep sweep = sample();
  sweep.ideal = Seconds(0);
  sweep.points = {fits(10, "rotor", 0)};

  EXPECT_THAT(to_csv(sweep), HasSubstr("\n10,rotor,0,0,"));
}

TEST(SweepJson, HoldsTheSame) {
  const auto document = nlohmann::json::parse(to_json(sample()));

  EXPECT_EQ(document["format"], "trireme-sweep/1");
  EXPECT_EQ(document["points"].size(), 6U);
  EXPECT_EQ(document["points"][0]["least_budget_bytes"], 20);
  EXPECT_EQ(document["points"][1]["step_s"], 5);
}

TEST(SweepPage, IsWellFormedAndAlone) {
  const std::string page = sweep_page(sample());

  EXPECT_EQ(markup_fault(page), "");
  EXPECT_EQ(outside_of(page), "");
}

TEST(SweepPage, NamesAxesWithUnitsAndSolvers) {
  const std::string page = sweep_page(sample());

  EXPECT_THAT(page, HasSubstr("memory budget of the rank (B)"));
  EXPECT_THAT(page, HasSubstr("step time (s)"));
  EXPECT_THAT(page, HasSubstr(">rotor</text>"));
  EXPECT_THAT(page, HasSubstr(">periodic 3 (never fits)</text>"));
}

TEST(SweepPage, TellsEveryPointOnHover) {
  EXPECT_THAT(sweep_page(sample()),
              HasSubstr("<title>rotor within 10 B\nstep 5.00 s (+25.0 %)\npeak 10 B\n"
                        "recompute 1.00 s</title>"));
}

// Two points per solver that fits twice: a step down at the second.
TEST(SweepPage, DrawsStaircases) {
  const std::string page = sweep_page(sample());

  EXPECT_THAT(page, testing::ContainsRegex(
                        "<path d=\"M[0-9.]+ [0-9.]+H[0-9.]+V[0-9.]+\" class=\"curve\">"));
}

TEST(SweepPage, KeepsOneSlowSolverFromPressingTheOthersFlat) {
  Sweep sweep = sample();
  sweep.points[2] = fits(10, "periodic 3", 400);

  const std::string page = sweep_page(sweep);

  EXPECT_THAT(page, HasSubstr("above the picture: periodic 3 within 10 B"));
  EXPECT_THAT(page, HasSubstr("step time (s)</text>"));
}

TEST(SweepPage, GoesLogarithmicWhereTheBestAreFarApart) {
  Sweep sweep = sample();
  sweep.points[1] = fits(10, "rotor", 40);

  EXPECT_THAT(sweep_page(sweep), HasSubstr("step time (s, logarithmic)"));
}

TEST(SweepPage, SaysSoWhenNothingFits) {
  Sweep sweep = sample();
  sweep.points = {too_large(10, "rotor", 20)};

  const std::string page = sweep_page(sweep);

  EXPECT_EQ(markup_fault(page), "");
  EXPECT_THAT(page, HasSubstr("No solver fits"));
}

TEST(SweepPage, SurvivesOneBudgetAndNoTime) {
  Sweep sweep = sample();
  sweep.ideal = Seconds(0);
  sweep.points = {fits(10, "rotor", 0)};

  const std::string page = sweep_page(sweep);

  EXPECT_EQ(markup_fault(page), "");
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr("inf\"")));
}

/// Two plans of two stages; the second has clocks.
std::vector<plan::Plan> two_plans() {
  plan::Plan fast;
  fast.solver = "joint, or so";
  fast.step = Seconds(2);
  fast.energy = Joules(400);
  fast.recompute = Seconds(0.5);
  fast.stages.resize(2);
  plan::Plan lean = fast;
  lean.step = Seconds(2.5);
  lean.energy = Joules(300);
  lean.recompute = Seconds(0);
  lean.stages[0].forward_clock = lean.stages[1].forward_clock = "slow";
  lean.stages[1].backward_clock = "a<b";
  return {fast, lean};
}

TEST(TradeOff, HasALinePerPlan) {
  EXPECT_EQ(trade_off_csv(two_plans()),
            "step_s,energy_j,step_ratio,energy_ratio,recompute_s,plan\n"
            "2,400,1,1,0.5,\"joint, or so, recomputes 500 ms\"\n"
            "2.5,300,1.25,0.75,0,\"joint, or so, backward a<b on 1 stage, forward slow on 2 "
            "stages\"\n");
}

TEST(TradeOff, PageIsWellFormedWithOneMarkPerPlan) {
  const std::string page = trade_off_page(two_plans(), "chain <1>");
  EXPECT_EQ(markup_fault(page), "");
  EXPECT_THAT(page, HasSubstr("Energy against time: chain &lt;1&gt;"));
  EXPECT_THAT(page, HasSubstr("-25.0 %"));
  EXPECT_EQ(count_of(page, "<circle"), 2);
}

TEST(TradeOff, PageOfASinglePlanIsDrawnToo) {
  EXPECT_EQ(markup_fault(trade_off_page({two_plans().front()}, "one")), "");
}

}  // namespace
}  // namespace trireme::report
