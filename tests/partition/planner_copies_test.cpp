// Plans for ranks with an outer tier.
// SPDX-License-Identifier: Apache-2.0
#include "partition/planned.h"

#include <gtest/gtest.h>

namespace trireme::partition {
namespace {

TEST(Planner, MovesBytesWhereThatIsFaster) {
  // Far too little memory to keep everything, and a link that is fast enough to move most of it.
  Question question = equal_layers(12, 2, 12, 24);
  for (chain::RankSpec& rank : question.platform.ranks) {
    rank.host = Bytes(1000);
    rank.out = rank.in = BytesPerSecond(2);
  }

  const plan::Plan plan = planned(question);

  expect_sound(question, plan);
  EXPECT_GT(plan.stages[0].predicted.offloaded, Bytes(0));
  for (chain::RankSpec& rank : question.platform.ranks) rank.out = rank.in = BytesPerSecond(0);
  EXPECT_LT(plan.step, planned(question).step);
}

// Eight stages: seven or eight in flight at first, more than the two messages that a stream takes.
TEST(Planner, MovesBytesWithManyInFlight) {
  const Question question = with_links(equal_layers(32, 8, 24, 28), 2);

  const plan::Plan plan = planned(question);

  expect_sound(question, plan);
  EXPECT_GT(plan.stages[0].predicted.offloaded, Bytes(0));
  EXPECT_LT(plan.step, planned(with_links(question, 0)).step);
}

TEST(Planner, OffloadAloneRunsNothingTwice) {
  Question question = with_links(equal_layers(12, 2, 12, 24), 3);
  question.solver = "offload";

  const plan::Plan plan = planned(question);

  EXPECT_EQ(plan.recompute, Seconds(0));
  EXPECT_GT(plan.stages[0].predicted.offloaded, Bytes(0));
  const auto fault = simulate::validate(plan::compile(plan), setting_of(question, plan));
  EXPECT_FALSE(fault) << simulate::to_text(*fault);
  question.solver = "auto";
  const plan::Plan open = planned(question);
  ASSERT_NE(alternative(open, "offload, best cut"), nullptr);
  EXPECT_LE(alternative(open, "offload, best cut")->step, plan.step);
  EXPECT_EQ(alternative(planned(with_links(question, 0)), "offload"), nullptr);
}

TEST(Planner, MovesNothingWhereTheOuterTierHasNoRoom) {
  Question question = equal_layers(12, 2, 12, 24);
  const Seconds without = planned(question).step;
  for (chain::RankSpec& rank : question.platform.ranks) rank.out = rank.in = BytesPerSecond(2);

  EXPECT_EQ(planned(question).step, without);
}

}  // namespace
}  // namespace trireme::partition
