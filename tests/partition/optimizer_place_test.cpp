// Optimizer state offload: how much, and what it gains.
// SPDX-License-Identifier: Apache-2.0
#include "partition/planned.h"
#include "support/trials.h"

#include "trireme/core/error.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <random>

namespace trireme::partition {
namespace {

Bytes offloaded(const plan::Plan& plan) {
  Bytes sum;
  for (const plan::StagePlan& stage : plan.stages) sum += stage.offloaded_optimizer;
  return sum;
}

Bytes state(const Question& question) {
  Bytes sum;
  for (const chain::LayerCost& layer : question.chain.layers) sum += layer.optimizer;
  return sum;
}

/// Gives every layer `each` bytes of optimizer state with an open placement.
Question with_state(Question question, std::int64_t each) {
  for (chain::LayerCost& layer : question.chain.layers) layer.optimizer = Bytes(each);
  question.optimizer_copies = std::nullopt;
  return question;
}

/// Random state, and an offload tier for every rank; budgets with room for some of the state.
Question small_question_with_state(std::mt19937& random, const Sizes& sizes) {
  Question question = small_question(random, sizes);
  for (chain::LayerCost& layer : question.chain.layers) {
    layer.optimizer = Bytes(between(random, 0, 12));
    layer.update = Seconds(between(random, 0, 2));
  }
  for (chain::RankSpec& rank : question.platform.ranks) {
    rank.memory += Bytes(between(random, 0, 12));
    rank.host = Bytes(between(random, 20, 200));
    rank.out = BytesPerSecond(between(random, 1, 8));
    rank.in = BytesPerSecond(between(random, 1, 8));
  }
  question.optimizer_copies = std::nullopt;
  return question;
}

/// Alternatives may be faster than a solver asked for by name.
plan::Plan without_alternatives(plan::Plan plan) {
  plan.alternatives.clear();
  return plan;
}

TEST(OptimizerPlace, IsTheDeviceWhereThereIsRoom) {
  Question question = with_links(with_state(equal_layers(4, 1, 3, 1000), 10), 2);
  EXPECT_EQ(offloaded(planned(question)), Bytes(0));
  question.platform.ranks[0].memory = Bytes(0);  // no budget
  EXPECT_EQ(offloaded(planned(question)), Bytes(0));
}

// Tapes of 3 bytes each and the gradient, with 40 bytes of state: only the excess is offloaded.
TEST(OptimizerPlace, KeepAllOffloadsWhatIsOverItsBudget) {
  Question question = with_links(with_state(equal_layers(4, 1, 3, 1000), 10), 2);
  const Bytes needed = keep_all_budget(question);
  question.solver = "keep_all";
  question.platform.ranks[0].memory = needed - Bytes(7);

  const plan::Plan plan = planned(question);

  expect_sound(question, plan);
  EXPECT_EQ(offloaded(plan), Bytes(7));
  EXPECT_EQ(plan.stages[0].static_bytes, Bytes(33));
  EXPECT_EQ(plan.stages[0].predicted.peak, needed - Bytes(7));
  // Three micro-batches of 4 layers, 1 + 2 seconds each; then 7 bytes at 2 bytes per second.
  EXPECT_DOUBLE_EQ(plan.step.count(), 3 * 4 * 3 + 3.5);
  ASSERT_NE(alternative(plan, "optimizer state on the device"), nullptr);
  EXPECT_TRUE(alternative(plan, "optimizer state on the device")->infeasible);
  question.optimizer_copies = Seconds(0);
  EXPECT_TRUE(std::holds_alternative<plan::Infeasible>(partition::plan(question)));
}

TEST(OptimizerPlace, CopiesCountBesideTheUpdateNotOnTopOfIt) {
  Question question = with_links(with_state(equal_layers(4, 1, 3, 1000), 10), 2);
  for (chain::LayerCost& layer : question.chain.layers) layer.update = Seconds(5);
  question.optimizer_copies = kAnyTime;
  // 40 bytes take as long as all four updates.
  EXPECT_DOUBLE_EQ(planned(question).step.count(), 3 * 4 * 3 + 20);
  question = with_links(question, 1);
  EXPECT_DOUBLE_EQ(planned(question).step.count(), 3 * 4 * 3 + 40);
}

TEST(OptimizerPlace, OffloadMeansAllOfIt) {
  Question question = with_links(with_state(equal_layers(4, 2, 3, 0), 10), 2);
  question.optimizer_copies = kAnyTime;
  const plan::Plan plan = planned(question);
  expect_sound(question, plan);
  EXPECT_EQ(offloaded(plan), Bytes(40));
  for (const plan::StagePlan& stage : plan.stages) EXPECT_EQ(stage.static_bytes, Bytes(0));

  question.shared_bytes = [](const LayerRuns&) {
    return chain::SharedBytes{.weights = Bytes(0), .optimizer = Bytes(4)};
  };
  EXPECT_EQ(offloaded(planned(question)), Bytes(32));
}

TEST(OptimizerPlace, NeedsRoomInTheOffloadTierAndALaneBothWays) {
  Question question = with_links(with_state(equal_layers(4, 1, 3, 0), 10), 2);
  question.optimizer_copies = kAnyTime;
  question.platform.ranks[0].host = Bytes(32);
  EXPECT_EQ(offloaded(planned(question)), Bytes(30));
  question.platform.ranks[0].in = BytesPerSecond(0);
  EXPECT_EQ(offloaded(planned(question)), Bytes(0));
}

// A slow link is not worth it while running again costs less; a fast one is.
TEST(OptimizerPlace, FollowsTheRateOfTheLink) {
  Question question = with_state(equal_layers(8, 1, 4, 95), 10);
  question.solver = "rotor";
  EXPECT_EQ(offloaded(planned(with_links(question, 0.01))), Bytes(0));
  const plan::Plan fast = planned(with_links(question, 1000));
  EXPECT_GT(offloaded(fast), Bytes(0));
  EXPECT_EQ(fast.recompute, Seconds(0));
}

TEST(OptimizerPlace, EveryRankOffloadsWhatItsOwnMemoryLacks) {
  Question question = with_links(with_state(equal_layers(8, 2, 8, 0), 10), 1000);
  question.cut = std::vector<int>{4};
  question.solver = "keep_all";
  // Two in flight on the first rank, one on the second.
  const auto peak = [&](std::size_t k) { return planned(question).stages[k].predicted.peak; };
  const Bytes first = peak(0), second = peak(1);
  question.platform.ranks[0].memory = first - Bytes(9);
  question.platform.ranks[1].memory = second - Bytes(2);
  const plan::Plan plan = planned(question);
  expect_sound(question, plan);
  EXPECT_EQ(plan.stages[0].offloaded_optimizer, Bytes(9));
  EXPECT_EQ(plan.stages[1].offloaded_optimizer, Bytes(2));
}

// Oracle: for every number of offloaded bytes, a chain with that much less state and longer
// updates, planned with the rest on the device.
TEST(OptimizerPlace, OfOneRankIsTheBestOfAllNumbersOfBytes) {
  std::mt19937 random(5);
  int looked = 0, moved = 0, best = 0;
  double worst = 1;
  for (int trial = 0; trial < trials(150); ++trial) {
    SCOPED_TRACE(trial);
    Question question =
        small_question_with_state(random, {.least_layers = 2, .least_stages = 1, .most_stages = 1});
    question.solver = "rotor";
    for (chain::LayerCost& layer : question.chain.layers) layer.update = Seconds(0);
    chain::RankSpec& rank = question.platform.ranks[0];
    Seconds least = kAnyTime;
    const std::int64_t most = std::min(state(question), rank.host / 16 * 15).count();
    for (std::int64_t bytes = 0; bytes <= most; ++bytes) {
      Question fixed = question;
      fixed.optimizer_copies = Seconds(0);
      std::int64_t left = bytes;
      for (chain::LayerCost& layer : fixed.chain.layers) {
        const std::int64_t some = std::min(left, layer.optimizer.count());
        layer.optimizer -= Bytes(some);
        left -= some;
      }
      fixed.chain.layers[0].update = Bytes(bytes) / std::min(rank.out, rank.in) * rank.speed;
      const Answer answer = partition::plan(fixed);
      if (const auto* plan = std::get_if<plan::Plan>(&answer)) least = std::min(least, plan->step);
    }
    const Answer answer = partition::plan(question);
    const auto* plan = std::get_if<plan::Plan>(&answer);
    ASSERT_EQ(plan != nullptr, least < kAnyTime);
    if (plan == nullptr) continue;
    expect_sound(question, without_alternatives(*plan));
    EXPECT_GE(plan->step.count(), least.count() * (1 - 1e-9));
    ++looked;
    if (offloaded(*plan) > Bytes(0)) ++moved;
    if (plan->step.count() <= least.count() * (1 + 1e-9)) ++best;
    worst = std::max(worst, plan->step / least);
  }
  std::printf("%d cases, %d with offloaded state, %d optimal, the worst %.3f of the optimum\n",
              looked, moved, best, worst);
  EXPECT_GE(moved, trials(30));
  EXPECT_GE(best * 100, looked * 97);
}

TEST(OptimizerPlace, IsSoundAndNeverCostsTimeInPipelines) {
  std::mt19937 random(6);
  int moved = 0, saved = 0;
  for (int trial = 0; trial < trials(60); ++trial) {
    SCOPED_TRACE(trial);
    const Question question = small_question_with_state(random, {.copies = true});
    Question resident = question;
    resident.optimizer_copies = Seconds(0);
    const Answer answer = partition::plan(question), before = partition::plan(resident);
    const auto* plan = std::get_if<plan::Plan>(&answer);
    const auto* other = std::get_if<plan::Plan>(&before);
    if (other != nullptr) {
      ASSERT_NE(plan, nullptr);
      EXPECT_LE(plan->step, other->step);
    }
    if (plan == nullptr) continue;
    expect_sound(question, *plan);
    if (offloaded(*plan) > Bytes(0)) ++moved;
    if (other == nullptr) ++saved;
  }
  std::printf("%d plans with offloaded state, %d where nothing else fits\n", moved, saved);
  EXPECT_GE(moved, trials(15));
  EXPECT_GE(saved, trials(10));
}

TEST(OptimizerPlace, TheLeastBudgetIsThatWithAllOfItOffloaded) {
  std::mt19937 random(7);
  int lacking = 0;
  for (int trial = 0; trial < 120; ++trial) {
    SCOPED_TRACE(trial);
    Question question =
        small_question_with_state(random, {.least_layers = 2, .least_stages = 1, .most_stages = 1});
    question.solver = "rotor";
    question.platform.ranks[0].memory = Bytes(6);
    const Answer answer = partition::plan(question);
    const auto* why = std::get_if<plan::Infeasible>(&answer);
    if (why == nullptr) continue;
    ++lacking;
    question.platform.ranks[0].memory = why->least_budget;
    EXPECT_TRUE(std::holds_alternative<plan::Plan>(partition::plan(question)));
    question.platform.ranks[0].memory -= Bytes(1);
    EXPECT_TRUE(std::holds_alternative<plan::Infeasible>(partition::plan(question)));
  }
  EXPECT_GE(lacking, 30);
}

TEST(OptimizerPlace, IsAdvisedWhereItWouldDo) {
  Question question = with_state(equal_layers(4, 1, 3, 1000), 10);
  question.solver = "keep_all";
  question.platform.ranks[0].memory = keep_all_budget(question) - Bytes(30);
  const Answer answer = partition::plan(question);
  ASSERT_TRUE(std::holds_alternative<plan::Infeasible>(answer));
  const std::string where = where_and_advice(std::get<plan::Infeasible>(answer));
  EXPECT_THAT(where, testing::HasSubstr("it would fit with 48 B (48 bytes) of host memory"));
  question.platform.ranks[0].host = Bytes(48);
  question.platform.ranks[0].out = question.platform.ranks[0].in = BytesPerSecond(1);
  EXPECT_TRUE(std::holds_alternative<plan::Plan>(partition::plan(question)));

  question.platform.ranks[0].memory = Bytes(1);
  EXPECT_THAT(where_and_advice(std::get<plan::Infeasible>(partition::plan(question))),
              testing::Not(testing::HasSubstr("it would fit")));
}

TEST(OptimizerPlace, OfThreeNamesAndNoOther) {
  EXPECT_EQ(optimizer_copies_of("auto"), std::nullopt);
  EXPECT_EQ(optimizer_copies_of("device"), Seconds(0));
  EXPECT_EQ(optimizer_copies_of("offload"), kAnyTime);
  EXPECT_THROW(optimizer_copies_of("host"), LogicError);
}

}  // namespace
}  // namespace trireme::partition
