// Plans for ranks with an offload tier.
// SPDX-License-Identifier: Apache-2.0
#include "partition/planned.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

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
  const auto fault =
      simulate::validate(plan::compile(plan, question.chain), setting_of(question, plan));
  EXPECT_FALSE(fault) << simulate::to_text(*fault);
  question.solver = "auto";
  const plan::Plan open = planned(question);
  ASSERT_NE(alternative(open, "offload, best cut"), nullptr);
  EXPECT_LE(alternative(open, "offload, best cut")->step, plan.step);
  EXPECT_EQ(alternative(planned(with_links(question, 0)), "offload"), nullptr);
}

TEST(Planner, MovesNothingWhereTheOffloadTierHasNoRoom) {
  Question question = equal_layers(12, 2, 12, 24);
  const Seconds without = planned(question).step;
  for (chain::RankSpec& rank : question.platform.ranks) rank.out = rank.in = BytesPerSecond(2);

  EXPECT_EQ(planned(question).step, without);
}

// Costs of a small llama with lean tapes, whose leanest program fitted by the luck of its copies'
// times alone: what the validator, which knows no rates, refused.
TEST(Planner, CapuchinKeepsTheBudgetAtAnyRateOfCopies) {
  const chain::LayerCost attention{.name = "attention",
                                   .forward = Seconds(1.146681e-02),
                                   .backward = Seconds(8.339785e-02),
                                   .output = Bytes(16384),
                                   .tape = Bytes(108800),
                                   .forward_transient = Bytes(184580),
                                   .tape_transient = Bytes(127236),
                                   .backward_transient = Bytes(40960),
                                   .retape = chain::Retape{.time = Seconds(2.924305e-03),
                                                           .tape = Bytes(92416),
                                                           .tape_transient = Bytes(143620),
                                                           .backward_transient = Bytes(57344)}};
  const chain::LayerCost mlp{.name = "mlp",
                             .forward = Seconds(1.045229e-03),
                             .backward = Seconds(2.746328e-02),
                             .output = Bytes(16384),
                             .tape = Bytes(65792),
                             .forward_transient = Bytes(163840),
                             .tape_transient = Bytes(114688),
                             .backward_transient = Bytes(90112),
                             .retape = chain::Retape{.time = Seconds(5.142405e-04),
                                                     .tape = Bytes(49408),
                                                     .tape_transient = Bytes(106496),
                                                     .backward_transient = Bytes(106496)}};
  const chain::LayerCost embedding{.name = "embedding",
                                   .forward = Seconds(3.523585e-05),
                                   .backward = Seconds(3.422370e-05),
                                   .output = Bytes(16384),
                                   .tape = Bytes(16384)};
  const chain::LayerCost head{.name = "head",
                              .forward = Seconds(5.144567e-03),
                              .backward = Seconds(1.611639e-04),
                              .output = Bytes(4),
                              .tape = Bytes(13572),
                              .forward_transient = Bytes(46844),
                              .tape_transient = Bytes(34044),
                              .backward_transient = Bytes(30976)};
  Question question;
  question.chain = {.name = "llama",
                    .input = Bytes(512),
                    .layers = {embedding, attention, mlp, attention, mlp, attention, mlp, head}};
  question.micro_batches = 4;
  question.solver = "capuchin";
  int plans = 0;
  for (int memory = 300; memory <= 620; memory += 4) {
    for (int rate = -7; rate <= 7; ++rate) {
      question.platform = chain::uniform_platform(1, Bytes(memory * 1000));
      question = with_links(std::move(question), 1.4e6 * std::pow(10, rate / 10.0));
      question.platform.ranks[0].host = Bytes(1 << 30);
      Answer answer = partition::plan(question);
      auto* const plan = std::get_if<plan::Plan>(&answer);
      if (plan == nullptr) continue;
      plan->alternatives.clear();  // which may be faster than a solver that was asked for by name
      expect_sound(question, *plan);
      ++plans;
    }
  }
  EXPECT_GE(plans, 300);
}

}  // namespace
}  // namespace trireme::partition
