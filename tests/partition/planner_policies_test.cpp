// Plans by a named policy, compared with `auto`.
// SPDX-License-Identifier: Apache-2.0
#include "partition/planned.h"

#include "trireme/core/text.h"

#include <gtest/gtest.h>

namespace trireme::partition {
namespace {

class NamedSolver : public testing::TestWithParam<std::string> {};

TEST_P(NamedSolver, MakesTheProgramOfEveryStage) {
  Question question = equal_layers(8, 2, 4, 40);
  question.solver = GetParam();

  const plan::Plan plan = planned(question);

  EXPECT_EQ(plan.solver, GetParam());
  const auto simulation = simulated(question, plan, simulate::Detail::kSummary);
  for (const simulate::RankResult& rank : simulation.ranks) EXPECT_LE(rank.peak.size, Bytes(40));
}

INSTANTIATE_TEST_SUITE_P(All, NamedSolver,
                         testing::Values("keep_all", "recompute_all", "periodic 2", "sqrt",
                                         "revolve", "min_peak", "rotor", "rotor_free", "capuchin",
                                         "exhaustive", "joint", "adapipe", "uniform 2"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

TEST(Planner, RecomputesEverythingWhereThatIsAsked) {
  Question question = equal_layers(4, 2, 2, 0);
  question.solver = "recompute_all";

  const plan::Plan plan = planned(question);

  ASSERT_EQ(plan.stages.size(), 2U);
  for (const plan::StagePlan& stage : plan.stages)
    EXPECT_EQ(stage.program,
              program::recompute_all(stage.program.first_layer, stage.program.last_layer));
}

TEST(Planner, PlansOneStageJointlyToo) {
  Question question = equal_layers(8, 1, 3, 16);
  const Seconds best = planned(question).step;
  question.solver = "joint";

  EXPECT_EQ(planned(question).step, best);
  question.solver = "uniform 4";
  EXPECT_GT(planned(question).step, best);
}

TEST(Planner, NamesTheBestUniformPlan) {
  const Question question = equal_layers(16, 4, 16, 34);
  const plan::Plan plan = planned(question);
  const auto* best = alternative(plan, "best uniform");
  ASSERT_NE(best, nullptr);
  ASSERT_TRUE(best->step);
  Question asked = question;
  Seconds least = kAnyTime;
  for (const char* const kind : {"uniform ", "block "}) {
    for (int size = 1; size <= 8; ++size) {
      asked.solver = concat(kind, size);
      const Answer answer = partition::plan(asked);
      if (const auto* other = std::get_if<plan::Plan>(&answer))
        least = std::min(least, other->step);
    }
  }
  EXPECT_EQ(*best->step, least);
}

}  // namespace
}  // namespace trireme::partition
