// What the planner promises of every plan, and small cases with known answers.
// SPDX-License-Identifier: Apache-2.0
#include "partition/planned.h"
#include "support/trials.h"

#include "trireme/core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::partition {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string refusal(const Question& question) {
  try {
    partition::plan(question);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Planner, KeepsEveryBudgetAndBeatsItsAlternatives) {
  std::mt19937 random(31);
  int feasible = 0;
  for (int trial = 0; trial < trials(120); ++trial) {
    SCOPED_TRACE(trial);
    const Question question = small_question(random, {.least_layers = 4,
                                                      .most_layers = 14,
                                                      .most_stages = 5,
                                                      .most_micro_batches = 9,
                                                      .copies = trial % 3 == 0});
    const Answer answer = partition::plan(question);
    if (const auto* plan = std::get_if<plan::Plan>(&answer)) {
      ++feasible;
      expect_sound(question, *plan);
    }
  }
  EXPECT_GE(feasible, trials(50));
}

TEST(Planner, NamesTheLeastBudgetOfEqualRanks) {
  std::mt19937 random(32);
  int shortages = 0;
  for (int trial = 0; trial < trials(200); ++trial) {
    SCOPED_TRACE(trial);
    Question question = small_question(random, {.least_layers = 3, .most_layers = 8});
    question.solver = "joint";
    for (chain::RankSpec& rank : question.platform.ranks)
      rank.memory = question.platform.ranks.front().memory;
    const Answer answer = partition::plan(question);
    const auto* infeasible = std::get_if<plan::Infeasible>(&answer);
    if (infeasible == nullptr) continue;
    ++shortages;
    EXPECT_GT(infeasible->least_budget, infeasible->available);
    for (chain::RankSpec& rank : question.platform.ranks) rank.memory = infeasible->least_budget;
    EXPECT_TRUE(std::holds_alternative<plan::Plan>(partition::plan(question)));
    for (chain::RankSpec& rank : question.platform.ranks) rank.memory -= Bytes(1);
    EXPECT_FALSE(std::holds_alternative<plan::Plan>(partition::plan(question)));
  }
  EXPECT_GE(shortages, trials(40));
}

TEST(Planner, SaysWhatWouldMakeItFit) {
  Question question = equal_layers(12, 2, 4, 99);
  question.platform.ranks[1].memory = Bytes(4);

  const Answer answer = partition::plan(question);

  const auto* infeasible = std::get_if<plan::Infeasible>(&answer);
  ASSERT_NE(infeasible, nullptr);
  EXPECT_EQ(infeasible->rank, 1);
  EXPECT_EQ(infeasible->available, Bytes(4));
  // A backward of one layer holds its input, its tape and two gradients: 1 + 3 + 1 + 1 bytes.
  EXPECT_EQ(infeasible->least_budget, Bytes(6));
  EXPECT_THAT(where_and_advice(*infeasible), HasSubstr("2 B (2 bytes) more on rank 1 alone"));
}

TEST(Planner, KeepsAllWhereNoBudgetIsGiven) {
  const plan::Plan plan = planned(equal_layers(8, 4, 4, 0));

  // Stages of two layers: F = 2, B = 4; 1F1B of equal stages takes (m + p - 1)(F + B).
  EXPECT_EQ(plan.step, Seconds((4 + 4 - 1) * 6));
  EXPECT_EQ(plan.recompute, Seconds(0));
  EXPECT_THAT(last_layers(plan), ElementsAre(2, 4, 6, 8));
}

TEST(Planner, RecomputesOnTheFirstStagesOnly) {
  // Enough for keep_all with one or two micro-batches in flight, not with four.
  const plan::Plan plan = planned(equal_layers(16, 4, 16, 34));

  EXPECT_GT(plan.recompute, Seconds(0));
  const program::StageProgram& last = plan.stages.back().program;
  EXPECT_EQ(last, program::keep_all(last.first_layer, last.last_layer));
  const program::StageProgram& first = plan.stages.front().program;
  EXPECT_NE(first, program::keep_all(first.first_layer, first.last_layer));
}

TEST(Planner, GivesTheFasterRankMoreLayers) {
  Question question = equal_layers(8, 2, 16, 0);
  question.platform.ranks[1].speed = 3;

  EXPECT_THAT(last_layers(planned(question)), ElementsAre(2, 8));
}

TEST(Planner, GivesTheSmallerRankFewerLayers) {
  Question question = equal_layers(8, 2, 16, 0);
  question.platform.ranks[0].memory = Bytes(10);

  const plan::Plan plan = planned(question);

  EXPECT_LT(plan.stages[0].program.last_layer, 4);
  expect_sound(question, plan);
}

TEST(Planner, CutsWhereLittleHasToBeSent) {
  Question question = equal_layers(8, 2, 8, 0);
  for (int i = 1; i <= 8; ++i)
    question.chain.layers[static_cast<std::size_t>(i - 1)].output = Bytes(100);
  question.chain.layers[4].output = Bytes(1);
  question.chain.layers[4].backward_transient = question.chain.layers[5].backward_transient =
      Bytes(100);
  question.platform.default_link = {BytesPerSecond(5), Seconds(0)};

  EXPECT_THAT(last_layers(planned(question)), ElementsAre(5, 8));
}

TEST(Planner, CountsChannelBuffers) {
  Question question = equal_layers(4, 2, 1, 0);
  question.solver = "keep_all";
  const Bytes without = planned(question).stages[0].predicted.peak;
  question.platform.channel_buffers = 2;

  // Two buffers each for the output and its gradient, of one byte.
  EXPECT_EQ(planned(question).stages[0].predicted.peak, without + Bytes(4));
}

TEST(Planner, HoldsEveryMicroBatchWithGPipe) {
  Question question = equal_layers(4, 2, 6, 0);
  question.schedule = "gpipe";

  const plan::Plan plan = planned(question);

  EXPECT_EQ(plan::in_flight(plan), (std::vector<int>{6, 6}));
  EXPECT_EQ(plan.schedule, "gpipe");
}

TEST(Planner, HoldsOneMicroBatchOnOneStageAlsoWithGPipe) {
  Question question = equal_layers(6, 1, 4, 0);
  const plan::Plan all = planned(question);
  question.platform.ranks[0].memory = all.stages[0].predicted.peak - Bytes(1);
  question.schedule = "gpipe";
  for (const char* solver : {"auto", "rotor"}) {
    question.solver = solver;
    EXPECT_LE(planned(question).stages[0].predicted.peak, question.platform.ranks[0].memory);
  }
}

TEST(Planner, TakesMadpipeOnOneStageForJoint) {
  Question question = equal_layers(6, 1, 4, 0);
  const plan::Plan all = planned(question);
  question.platform.ranks[0].memory = all.stages[0].predicted.peak * 2 / 3;
  question.solver = "joint";
  const Seconds joint = planned(question).step;
  question.solver = "madpipe";
  EXPECT_EQ(planned(question).step, joint);
}

TEST(Planner, LeavesOutWhatTiedWeightsShare) {
  Question question = equal_layers(4, 1, 4, 0);
  for (chain::LayerCost& layer : question.chain.layers) layer.parameters = Bytes(10);
  question.shared_bytes = [](const LayerRuns& runs) {
    return chain::SharedBytes{.weights = runs == LayerRuns{{1, 4}} ? Bytes(10) : Bytes(0),
                              .optimizer = Bytes(0)};
  };

  EXPECT_EQ(planned(question).stages[0].static_bytes, Bytes(30));
  question.stages = 2;
  question.platform = chain::uniform_platform(2, Bytes(0));
  EXPECT_EQ(planned(question).stages[0].static_bytes, Bytes(20));
}

TEST(Planner, KeepsTheUsersCut) {
  Question question = equal_layers(8, 3, 4, 60);
  question.cut = std::vector<int>{1, 3};

  EXPECT_THAT(last_layers(planned(question)), ElementsAre(1, 3, 8));
}

// Stage 0 has two layers of equal forwards and must run one of them again. The second can run while
// the gradient is under way, the first cannot. 122 is the best step over all cuts with the fastest
// memory-persistent programs, by exhaustive search (every_cut.h).
TEST(Planner, LooksAtWhatHidesWhereTimesAreEqual) {
  Question question;
  chain::Chain& chain = question.chain;
  chain = {.name = "tie", .input = Bytes(1), .layers = {}};
  const auto add = [&](chain::LayerCost layer, int forward, int tape, int backward,
                       int parameters) {
    layer.forward_transient = Bytes(forward);
    layer.tape_transient = Bytes(tape);
    layer.backward_transient = Bytes(backward);
    layer.parameters = Bytes(parameters);
    chain.layers.push_back(layer);
  };
  add(solve::layer(7, 1, 1, 4), 0, 0, 2, 0);
  add(solve::layer(7, 3, 2, 6), 0, 1, 3, 1);
  add(solve::layer(5, 5, 3, 4), 2, 0, 4, 1);
  add(solve::layer(7, 8, 4, 6), 1, 0, 4, 2);
  add(solve::layer(2, 1, 1, 1), 2, 1, 7, 1);
  add(solve::layer(6, 9, 2, 8), 1, 2, 3, 0);
  question.platform = chain::uniform_platform(2, Bytes(23));
  question.platform.ranks[1].memory = Bytes(25);
  question.platform.ranks[1].speed = 2;
  question.stages = 2;
  question.micro_batches = 4;
  question.slots = 0;

  EXPECT_LE(planned(question).step, Seconds(122));
}

TEST(Planner, FindsTheSamePlanAgain) {
  std::mt19937 random(33);
  for (int trial = 0; trial < 10; ++trial) {
    const Question question = small_question(random, {.most_layers = 10});
    EXPECT_EQ(partition::plan(question), partition::plan(question));
  }
}

TEST(Planner, RefusesWhatCannotBe) {
  Question question = equal_layers(4, 2, 2, 0);
  question.solver = "jonit";
  EXPECT_THAT(refusal(question), HasSubstr("did you mean 'joint'?"));
  question.solver = "auto";
  question.cut = std::vector<int>{4};
  EXPECT_THAT(refusal(question), HasSubstr("within 1..3"));
  question.cut = std::vector<int>{1, 2};
  EXPECT_THAT(refusal(question), HasSubstr("must have 1"));
  question.cut.reset();
  question.stages = 5;
  EXPECT_THAT(refusal(question), HasSubstr("every stage needs one; use 1 to 4"));
  question.stages = 3;
  EXPECT_THAT(refusal(question), HasSubstr("the platform has 2 ranks"));
}

}  // namespace
}  // namespace trireme::partition
