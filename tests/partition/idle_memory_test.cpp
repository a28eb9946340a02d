// Idle memory: streamed weights and activations peak at different times.
// SPDX-License-Identifier: Apache-2.0
#include "answer/answers.h"
#include "judge/judge.h"
#include "partition/planned.h"
#include "partition/weighed.h"
#include "search/search.h"
#include "support/trials.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <optional>
#include <random>
#include <utility>
#include <variant>

namespace trireme::partition {
namespace {

Answer plan_plainly(const Question& question) {
  return question.stages > 1 ? plan_pipeline(question) : answer_alone(question, question.solver);
}

/// The search over a question with only its programs open.
Answer with_idle_memory_used(const Question& question, const Planner& propose) {
  return Search(question, propose).best();
}

std::optional<plan::Plan> plan_of(Answer answer) {
  if (auto* const plan = std::get_if<plan::Plan>(&answer)) return std::move(*plan);
  return std::nullopt;
}

/// Includes the memory of validations.
void expect_within_budgets(const Question& question, const plan::Plan& plan) {
  expect_sound(question, plan);
  expect_validation_fits(question, plan);
  for (const plan::StagePlan& stage : plan.stages) {
    const auto rank = static_cast<std::size_t>(stage.rank);
    const Bytes memory = question.platform.ranks[rank].memory;
    EXPECT_EQ(stage.budget, memory);
    EXPECT_TRUE(memory == Bytes(0) || stage.static_bytes <= memory);
  }
}

// All tapes are held with the last layer's, when the weights of the first two layers, 20 bytes
// each, are not; with those, no more than their own tapes.
TEST(IdleMemory, OfLargeWeightsAtTheOtherEndHoldsTapes) {
  Question question =
      with_frozen(with_links(equal_layers(9, 1, 2, 1000), 1e6), {20, 20, 1, 1, 1, 1, 1, 1, 1});
  question.streamed = all_to_stream(question.chain);
  question.solver = "rotor";
  const Bytes window(40), weights(47);
  const plan::Plan roomy = planned(question);
  EXPECT_EQ(roomy.recompute, Seconds(0));
  const Bytes enough = roomy.stages[0].predicted.peak;
  EXPECT_LT(enough, keep_all_budget(question) - weights + window);
  question.platform.ranks[0].memory = enough;
  const auto plain = plan_of(plan_plainly(question));
  ASSERT_TRUE(plain);
  EXPECT_GT(plain->recompute, Seconds(0));
  const plan::Plan plan = planned(question);
  EXPECT_EQ(plan.recompute, Seconds(0));
  EXPECT_EQ(plan.stages[0].predicted.peak, enough);
  EXPECT_LT(plan.step, plain->step);
  expect_within_budgets(question, plan);
}

// Where all weights are on the device, the planner has used all memory already.
TEST(IdleMemory, IsNoneWithoutStreamedWeights) {
  Question question = equal_layers(8, 1, 3, 20);
  question.solver = "rotor";
  int asked = 0;
  const auto planner = [&](const Question& other) {
    ++asked;
    return plan_plainly(other);
  };
  Answer answer = planned(question);
  const plan::Plan before = std::get<plan::Plan>(answer);
  EXPECT_EQ(std::get<plan::Plan>(with_idle_memory_used(question, planner)).stages, before.stages);
  EXPECT_EQ(asked, 1);
}

TEST(IdleMemory, IsNoneWithoutABudget) {
  Question question =
      with_frozen(with_links(equal_layers(8, 1, 3, 0), 1), std::vector<std::int64_t>(8, 10));
  question.streamed = all_to_stream(question.chain);
  int asked = 0;
  const auto planner = [&](const Question& other) {
    ++asked;
    return plan_plainly(other);
  };
  question.solver = "rotor";
  Answer answer = plan_plainly(question);
  EXPECT_FALSE(streamed(std::get<plan::Plan>(answer)).empty());
  with_idle_memory_used(question, planner);
  EXPECT_EQ(asked, 1);
}

// Oracle: plans for every budget up to the size of the window, byte by byte.
TEST(IdleMemory, OfOneRankIsNearTheBestOfAllLargerBudgets) {
  std::mt19937 random(25);
  int plans = 0, faster = 0, optimal = 0;
  double worst = 1;
  for (int trial = 0; trial < trials(400); ++trial) {
    SCOPED_TRACE(trial);
    Question question = small_question_with_weights(
        random, {.least_layers = 4, .most_layers = 9, .least_stages = 1, .most_stages = 1});
    question.schedule = "1f1b";
    question.solver = "rotor";
    question.streamed = all_to_stream(question.chain);
    auto plain = plan_of(plan_plainly(question));
    if (!plain || streamed(*plain).empty()) continue;
    ++plans;
    Seconds least = plain->step;
    for (int more = 1; more <= 60; ++more) {
      Question loose = question;
      loose.platform.ranks[0].memory += Bytes(more);
      auto other = plan_of(plan_plainly(loose));
      if (other) other = on_budgets(question, *std::move(other));
      if (other) least = std::min(least, other->step);
    }
    const Seconds before = plain->step;
    const auto best = plan_of(with_idle_memory_used(question, plan_plainly));
    ASSERT_TRUE(best);
    expect_within_budgets(question, *best);
    EXPECT_LE(best->step, before);
    faster += best->step < before ? 1 : 0;
    optimal += best->step <= least * (1 + 1e-9) ? 1 : 0;
    worst = std::max(worst, best->step / least);
  }
  std::cout << plans << " plans with streamed weights, " << faster
            << " faster with idle memory used, " << optimal << " optimal, the worst "
            << std::setprecision(4) << worst << " of the optimum\n";
  EXPECT_GE(plans, trials(100));
  EXPECT_GE(faster, plans / 3);
  EXPECT_GE(optimal, plans * 9 / 10);
  EXPECT_LE(worst, 1.1);
}

TEST(IdleMemory, OfAnyPlanStaysWithinBudgets) {
  std::mt19937 random(26);
  int plans = 0, faster = 0;
  for (int trial = 0; trial < trials(600); ++trial) {
    SCOPED_TRACE(trial);
    Question question = small_question_with_weights(random, {.least_layers = 3, .least_stages = 1});
    question.solver = trial % 3 == 0 ? "pofo" : trial % 3 == 1 ? "joint" : "rotor";
    if (question.stages == 1 && trial % 3 == 1) question.solver = "capuchin";
    if (question.stages == 1) question.schedule = "1f1b";
    question.streamed = all_to_stream(question.chain);
    for (chain::LayerCost& layer : question.chain.layers) layer.optimizer = layer.trained;
    if (trial % 2 == 0) question.optimizer_copies = kAnyTime;
    auto plain = plan_of(plan_plainly(question));
    if (!plain || streamed(*plain).empty()) continue;
    ++plans;
    const Seconds before = plain->step;
    const auto best = plan_of(with_idle_memory_used(question, plan_plainly));
    ASSERT_TRUE(best);
    expect_within_budgets(question, *best);
    EXPECT_LE(best->step, before);
    faster += best->step < before ? 1 : 0;
  }
  EXPECT_GE(plans, trials(40));
  EXPECT_GE(faster, trials(4));
}

}  // namespace
}  // namespace trireme::partition
