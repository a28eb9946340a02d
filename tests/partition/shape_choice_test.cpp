// Which shapes are planned quickly, which thoroughly, and how good the choice is.
// SPDX-License-Identifier: Apache-2.0
#include "partition/weighed.h"
#include "support/trials.h"

#include "trireme/partition/shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <variant>

namespace trireme::partition {
namespace {

/// Ranks with an offload tier, links and replicas; state, weights and groups where they are best.
ShapeQuestion random_shapes(std::mt19937& random) {
  const Sizes sizes{.least_layers = 4, .most_layers = 7, .least_stages = 1, .most_stages = 1};
  const Question one = small_question_with_weights(random, sizes);
  ShapeQuestion question;
  chain::Chain chain = one.chain;
  for (chain::LayerCost& layer : chain.layers) layer.optimizer = layer.gradients * 2;
  question.chain_at = [chain](int size) { return scaled_chain(chain, 2, size); };
  question.common.platform = chain::uniform_platform(4, Bytes(0));
  question.common.platform.default_link = {BytesPerSecond(between(random, 1, 8)), Seconds(0)};
  for (chain::RankSpec& rank : question.common.platform.ranks) rank = one.platform.ranks[0];
  question.ranks = 4;
  question.batch = 8;
  question.common.slots = 0;
  question.common.optimizer_copies = std::nullopt;
  question.weights = "auto";
  question.common.group = std::nullopt;
  return question;
}

/// The best of all shapes planned thoroughly; plans the choice already made thoroughly are reused,
/// and shapes that cannot be faster skipped.
Seconds least_step(const ShapeQuestion& question, const ShapeAnswer& answer) {
  Seconds least = kAnyTime;
  for (const TriedShape& tried : answer.tried)
    if (tried.plan() != nullptr && !tried.is_quick) least = std::min(least, tried.step());
  for (const TriedShape& tried : answer.tried) {
    if (tried.least >= least || (tried.answer && !tried.is_quick)) continue;
    const Shape& shape = tried.shape;
    const Question alone = question_of(question, shape, question.chain_at(shape.micro_batch));
    const Answer planned = partition::plan(alone);
    if (const auto* plan = std::get_if<plan::Plan>(&planned))
      least = std::min(least, plan->step + reduce_time(question, shape, alone.chain, *plan));
  }
  return least;
}

TEST(ShapeChoice, IsNearTheFastestOfAllPlannedThoroughly) {
  std::mt19937 random(11);
  int looked = 0, best = 0, quick = 0;
  double worst = 1;
  for (int trial = 0; trial < trials(24); ++trial) {
    SCOPED_TRACE(trial);
    const ShapeQuestion question = random_shapes(random);
    const ShapeAnswer answer = choose_shape(question);
    const Seconds least = least_step(question, answer);
    ASSERT_EQ(answer.chosen.has_value(), least < kAnyTime);
    if (!answer.chosen) continue;
    const TriedShape& chosen = answer.tried[*answer.chosen];
    ++looked;
    for (const TriedShape& tried : answer.tried) quick += tried.is_quick ? 1 : 0;
    EXPECT_FALSE(chosen.is_quick);
    EXPECT_GE(chosen.step().count(), least.count() * (1 - 1e-9));
    if (chosen.step().count() <= least.count() * (1 + 1e-9)) ++best;
    worst = std::max(worst, chosen.step() / least);
  }
  std::printf("%d choices, %d the fastest of all, the worst %.3f of it; %d shapes by quick plans\n",
              looked, best, worst, quick);
  EXPECT_GE(looked, trials(16));
  EXPECT_GE(best + 2, looked);
  EXPECT_LE(worst, 1.1);
}

// Threads plan shapes in an order that differs from run to run.
TEST(ShapeChoice, SaysTheSameEveryTime) {
  std::mt19937 random(12);
  for (int trial = 0; trial < trials(4); ++trial) {
    const ShapeQuestion question = random_shapes(random);
    const std::string first = to_text(choose_shape(question));
    for (int k = 0; k < 3; ++k) EXPECT_EQ(to_text(choose_shape(question)), first);
  }
}

TEST(ShapeChoice, NoPlanTakesLessThanTheLeastThatItsShapeTakes) {
  std::mt19937 random(13);
  int planned = 0;
  for (int trial = 0; trial < trials(8); ++trial) {
    ShapeQuestion question = random_shapes(random);
    question.shard_optimizer = trial % 2 == 0;
    question.common.platform.overrides.push_back({0, 2, {BytesPerSecond(1), Seconds(1)}});
    for (const TriedShape& tried : choose_shape(question).tried) {
      if (tried.plan() == nullptr) continue;
      ++planned;
      const chain::Chain chain = question.chain_at(tried.shape.micro_batch);
      EXPECT_LE(tried.least, tried.step());
      EXPECT_LE(least_reduce_time(question, tried.shape, chain), tried.reduce);
    }
  }
  EXPECT_GE(planned, trials(16));
}

// A group of two on each of two ranks; the same question as with `--stages 2`.
TEST(ShapeChoice, PipelinesHaveGroupsToo) {
  std::mt19937 random(14);
  ShapeQuestion question = random_shapes(random);
  question.common.group = 2;
  const Shape shape{.stages = 2, .replicas = 2, .micro_batch = 1, .micro_batches = 4};
  EXPECT_EQ(question_of(question, shape, question.chain_at(1)).group, 2);
  const Shape short_one{.stages = 2, .replicas = 2, .micro_batch = 4, .micro_batches = 1};
  EXPECT_EQ(question_of(question, short_one, question.chain_at(4)).group, 1);
  question.common.group = std::nullopt;
  EXPECT_EQ(question_of(question, shape, question.chain_at(1)).group, std::nullopt);
}

/// 34 layers of unequal costs that need the offload tier for state and weights.
Question long_question(std::mt19937& random, int stages) {
  const Sizes sizes{.least_layers = 34, .most_layers = 34, .least_stages = 1, .most_stages = 1};
  Question question = small_question_with_weights(random, sizes);
  const chain::RankSpec rank = question.platform.ranks[0];
  question.platform = chain::uniform_platform(stages, Bytes(0));
  for (chain::RankSpec& one : question.platform.ranks) {
    one = rank;
    one.memory = Bytes(rank.memory.count() / stages);
    one.host = Bytes(10'000);
  }
  question.stages = stages;
  question.micro_batches = 4;
  question.slots = 500;
  question.optimizer_copies = std::nullopt;
  question.group = std::nullopt;
  return question;
}

TEST(QuickPlan, IsNearTheThoroughOneAndNeverFaster) {
  std::mt19937 random(15);
  int looked = 0;
  double sum = 0, worst = 1;
  for (int trial = 0; trial < trials(4); ++trial) {
    SCOPED_TRACE(trial);
    const Question question = long_question(random, trial % 4 == 0 ? 2 : 1);
    const std::optional<Answer> quick = quick_plan(question);
    ASSERT_TRUE(quick);
    const Answer answer = partition::plan(question);
    const auto* const slow = std::get_if<plan::Plan>(&answer);
    const auto* const fast = std::get_if<plan::Plan>(&*quick);
    if (slow == nullptr || fast == nullptr) continue;
    ++looked;
    sum += fast->step / slow->step;
    worst = std::max(worst, fast->step / slow->step);
    EXPECT_LE(slow->step.count(), fast->step.count() * (1 + 1e-9));
  }
  std::printf("%d quick plans, the mean %.4f and the worst %.4f of the thorough ones\n", looked,
              sum / looked, worst);
  EXPECT_GE(looked, trials(4));
  EXPECT_LE(sum / looked, 1.003);
  EXPECT_LE(worst, 1.01);
}

TEST(QuickPlan, IsNotThereWhereItTakesAsLong) {
  std::mt19937 random(16);
  Question question = long_question(random, 1);
  question.solver = "rotor";
  EXPECT_FALSE(quick_plan(question));
  question.solver = "auto";
  question.chain = small_chain(random, 8);
  question.streamed.emplace();
  EXPECT_FALSE(quick_plan(question));
}

}  // namespace
}  // namespace trireme::partition
