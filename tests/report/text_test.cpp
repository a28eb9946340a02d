// SPDX-License-Identifier: Apache-2.0
#include "trireme/report/text.h"

#include "report/samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace trireme::report {
namespace {

using program::Op;
using testing::HasSubstr;
using testing::Not;

TEST(ActionsText, NamesActionsOneByOne) {
  EXPECT_EQ(actions_text({{Op::kForwardKeep, 1}, {Op::kForwardTape, 2}, {Op::kForwardTape, 3}}),
            "forward_keep 1, forward_tape 2, forward_tape 3");
}

TEST(ActionsText, FoldsRunsOfFourUpAndDown) {
  std::vector<program::Action> actions;
  for (int i = 1; i <= 4; ++i) actions.push_back({Op::kForwardTape, i});
  for (int i = 4; i >= 1; --i) actions.push_back({Op::kBackward, i});

  EXPECT_EQ(actions_text(actions), "forward_tape 1..4, backward 4..1");
}

TEST(ActionsText, FoldsNeitherGapsNorTurns) {
  EXPECT_EQ(actions_text({{Op::kDrop, 1}, {Op::kDrop, 2}, {Op::kDrop, 4}, {Op::kDrop, 3}}),
            "drop 1, drop 2, drop 4, drop 3");
}

TEST(Wrapped, BreaksAfterCommasOnly) {
  EXPECT_EQ(wrapped("backward 3, backward 2, backward 1", 24, 2),
            "backward 3, backward 2,\n  backward 1");
  EXPECT_EQ(wrapped("backward 3, backward 2", 5, 0), "backward 3,\nbackward 2");
}

TEST(ExactText, GivesEveryByte) {
  EXPECT_EQ(exact_text(Bytes(14)), "14 B");
  EXPECT_EQ(exact_text(Bytes(1572865)), "1572865 B (1.50 MiB)");
}

TEST(LeastBudgetText, SaysWhetherLessMayDo) {
  EXPECT_EQ(least_budget_text(Bytes(14), true), "the smallest budget that works is 14 B");
  EXPECT_EQ(least_budget_text(Bytes(14), false), "the smallest budget that works is at most 14 B");
}

TEST(OverheadText, IsRelativeToTheIdeal) {
  EXPECT_EQ(overhead_text(Seconds(29), Seconds(26)), "+11.5 %");
  EXPECT_EQ(overhead_text(Seconds(0), Seconds(0)), "+0.0 %");
}

TEST(TimeText, SaysZeroPlainly) {
  EXPECT_EQ(time_text(Seconds(0)), "0 s");
  EXPECT_EQ(time_text(Seconds(0.0125)), "12.5 ms");
}

TEST(IdealStep, IsAllWorkShared) {
  const chain::Chain chain = two_layers();
  const simulate::Simulation simulation =
      timeline(two_stages(2), chain, chain::uniform_platform(2, Bytes(0)));

  EXPECT_EQ(ideal_step(simulation).count(), 6);  // 2 micro-batches x 2 layers x 3 s on 2 ranks
}

TEST(PlanText, SaysWhatIsGainedAndWhatItCosts) {
  const chain::Chain chain = four_layers();
  plan::Plan plan = one_stage(chain, four_layers_in_14_bytes(), Bytes(14));
  const simulate::Simulation simulation =
      timeline(plan, chain, chain::uniform_platform(1, Bytes(14)));
  plan.step = simulation.step;
  plan.recompute = simulation.recompute;
  plan.stages[0].predicted.peak = simulation.ranks[0].peak.size;

  const std::string text = plan_text(plan, chain, simulation);

  EXPECT_THAT(text, HasSubstr("29.0 s per step, +11.5 % over the ideal 26.0 s (no waits, no "
                              "recomputation)\nrecompute 3.00 s per step, summed over ranks"));
  EXPECT_THAT(text, HasSubstr("peak      14 B of 14 B, 100.0 %"));
  EXPECT_THAT(text, HasSubstr("\nbackward  backward 5, backward 4, forward_tape 3, backward 3, "
                              "backward 2, forward_tape 1, backward 1\n"));
}

TEST(PlanText, ShowsWhatSomeMicroBatchesRunInstead) {
  const chain::Chain chain = four_layers();
  plan::Plan plan = one_stage(chain, four_layers_in_14_bytes(), Bytes(14));
  plan.stages[0].mix = {.others = {program::keep_all(1, chain.length())}, .cycle = {0, 1, 1}};

  const std::string text =
      plan_text(plan, chain, timeline(plan, chain, chain::uniform_platform(1, Bytes(0))));

  EXPECT_THAT(text, HasSubstr("2 of 3 micro-batches in flight run instead:\nforward   "
                              "forward_tape 1..5\n"));
}

TEST(PlanText, ListsAlternativesWithWhatTheyNeed) {
  const chain::Chain chain = four_layers();
  plan::Plan plan = one_stage(chain, four_layers_in_14_bytes(), Bytes(14));
  plan.step = Seconds(20);
  plan.alternatives = {{.policy = "slow", .step = Seconds(25), .infeasible = {}},
                       {.policy = "fat", .step = {}, .infeasible = plan::Infeasible{}}};
  plan.alternatives[1].infeasible->least_budget = Bytes(18);

  const auto rows = alternative_rows(plan);

  EXPECT_EQ(rows[1], (std::vector<std::string>{"slow", "25.0 s", "+25.0 %", ""}));
  EXPECT_EQ(rows[2], (std::vector<std::string>{"fat", "-", "", "18 B"}));
}

// Equal stages: step = (m + p - 1)(f + b), bubble = (p - 1) / (m + p - 1) (Narayanan et al. 2021).
TEST(SimulationText, SaysStepBubbleAndWaits) {
  const chain::Chain chain = two_layers();
  const plan::Plan plan = two_stages(2);

  const std::string text =
      simulation_text(plan, timeline(plan, chain, chain::uniform_platform(2, Bytes(0))));

  EXPECT_THAT(text, HasSubstr("step      9.00 s, +50.0 % over the ideal 6.00 s"));
  EXPECT_THAT(text, HasSubstr("bubble    33.3 %"));
  EXPECT_THAT(text, HasSubstr("peak of rank 1: "));
}

TEST(SimulationText, TellsTheContentsOfThePeakToTheLastByte) {
  const chain::Chain chain = four_layers();
  const plan::Plan plan = one_stage(chain, four_layers_in_14_bytes(), Bytes(14));

  const auto document = nlohmann::json::parse(
      to_json(plan, timeline(plan, chain, chain::uniform_platform(1, Bytes(14)))));

  const auto& peak = document["ranks"][0]["peak"];
  std::int64_t sum = 0;
  for (const auto& line : peak["contents"]) sum += line["bytes"].get<std::int64_t>();
  EXPECT_EQ(peak["bytes"], 14);
  EXPECT_EQ(sum, 14);
}

TEST(SimulationJson, HoldsTheNumbersOfTheTable) {
  const chain::Chain chain = two_layers();
  const plan::Plan plan = two_stages(2);

  const auto document = nlohmann::json::parse(
      to_json(plan, timeline(plan, chain, chain::uniform_platform(2, Bytes(0)))));

  EXPECT_EQ(document["format"], "trireme-simulation/1");
  EXPECT_EQ(document["step_s"], 9);
  EXPECT_EQ(document["ranks"].size(), 2U);
  EXPECT_EQ(document["ranks"][0]["busy_s"], 6);
  EXPECT_EQ(document["ranks"][0]["wait_for_ranks_s"], 3);
  EXPECT_EQ(document["ranks"][0]["moved_state_bytes"], 0);
  EXPECT_EQ(document["ranks"][0]["moved_weights_bytes"], 0);
}

TEST(PlanText, NamesTheClocksOfStagesThatHaveOthersThanTheUsualOne) {
  const chain::Chain chain = two_layers();
  plan::Plan plan = two_stages(2);
  const auto text = [&] {
    return plan_text(plan, chain, timeline(plan, chain, chain::uniform_platform(2, Bytes(0))));
  };
  EXPECT_THAT(text(), Not(HasSubstr("clocks")));
  plan.stages[1].backward_clock = "1200MHz";
  EXPECT_THAT(text(), HasSubstr("clocks    the usual one forward, 1200MHz backward\n"));
}

// Each rank computes for 6 of 9 s.
TEST(SimulationText, TellsTheEnergyOfAStepWhereThePlatformHasAPowerModel) {
  const chain::Chain chain = two_layers();
  plan::Plan plan = two_stages(2);
  chain::Platform platform = chain::uniform_platform(2, Bytes(0));
  const simulate::Simulation unknown = timeline(plan, chain, platform);
  EXPECT_EQ(energy_text(plan, unknown), "");
  EXPECT_FALSE(nlohmann::json::parse(to_json(plan, unknown)).contains("energy_j"));

  for (chain::RankSpec& rank : platform.ranks) rank.power = {.busy = Watts(100), .idle = Watts(10)};
  const simulate::Simulation known = timeline(plan, chain, platform);
  const std::string line =
      "energy    1.26 kJ per step: 1.20 kJ compute (0 J recompute), 0 J copies, 60.0 J idle\n";
  EXPECT_EQ(energy_text(plan, known), line);
  EXPECT_THAT(simulation_text(plan, known), HasSubstr("summed over ranks\n" + line + "\n"));
  EXPECT_THAT(plan_text(plan, chain, known), HasSubstr(line));
  const auto document = nlohmann::json::parse(to_json(plan, known));
  EXPECT_EQ(document["energy_j"]["all"], 1260);
  EXPECT_EQ(document["ranks"][1]["energy_j"]["idle"], 30);

  plan.replicas = 4;
  EXPECT_THAT(energy_text(plan, known), HasSubstr("1.26 kJ per step and replica: 1.20 kJ"));
}

}  // namespace
}  // namespace trireme::report
