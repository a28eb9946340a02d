// Weight streaming: which layers, and what it gains.
// SPDX-License-Identifier: Apache-2.0
#include "partition/planned.h"
#include "partition/weighed.h"
#include "support/trials.h"

#include "trireme/core/error.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

namespace trireme::partition {
namespace {

/// Eight equal layers with 10 bytes of frozen weights each.
Question equal_frozen(int stages, double rate, std::int64_t memory) {
  return with_frozen(with_links(equal_layers(8, stages, 3, memory), rate),
                     std::vector<std::int64_t>(8, 10));
}

/// The plan with the best placement of weights, and the one with all on the device; empty where
/// there is none. The first is sound, and exists and is no slower wherever the second exists.
struct Beside {
  std::optional<plan::Plan> best, resident;
};
Beside beside_resident(const Question& question) {
  const auto plan_of = [](const Question& asked) -> std::optional<plan::Plan> {
    Answer answer = partition::plan(asked);
    if (auto* const plan = std::get_if<plan::Plan>(&answer)) return std::move(*plan);
    return std::nullopt;
  };
  Question on_device = question;
  on_device.streamed = std::vector<int>{};
  Beside plans{.best = plan_of(question), .resident = plan_of(on_device)};
  if (plans.best) expect_sound(question, *plans.best);
  if (!plans.resident) return plans;
  EXPECT_TRUE(plans.best);
  if (plans.best) {
    EXPECT_LE(plans.best->step, plans.resident->step);
  }
  return plans;
}

TEST(WeightsPlace, IsTheDeviceWhereThereIsRoom) {
  EXPECT_TRUE(streamed(planned(equal_frozen(1, 2, 1000))).empty());
  EXPECT_TRUE(streamed(planned(equal_frozen(1, 2, 0))).empty()) << "no budget";
}

// 20 of 80 bytes stay on the device, and the copies of six layers each way hide behind the passes.
TEST(WeightsPlace, KeepAllStreamsWhatIsOverItsBudget) {
  Question question = equal_frozen(1, 100, 1000);
  const Bytes needed = keep_all_budget(question);
  question.solver = "keep_all";
  question.platform.ranks[0].memory = needed - Bytes(60);
  const plan::Plan plan = planned(question);
  expect_sound(question, plan);
  EXPECT_EQ(streamed(plan), (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(plan.stages[0].static_bytes, Bytes(20));
  EXPECT_EQ(plan.stages[0].predicted.peak, needed - Bytes(60));
  EXPECT_DOUBLE_EQ(plan.step.count(), 3 * 8 * 3);
  ASSERT_NE(alternative(plan, "weights on the device"), nullptr);
  EXPECT_TRUE(alternative(plan, "weights on the device")->infeasible);

  question.platform.ranks[0].memory -= Bytes(1);
  EXPECT_TRUE(std::holds_alternative<plan::Infeasible>(partition::plan(question)));
  question.streamed = std::vector<int>{};
  EXPECT_TRUE(std::holds_alternative<plan::Infeasible>(partition::plan(question)));
}

/// Eight equal layers with 10 bytes of trained weights each, 20 of gradients, 40 of state.
Question equal_trained(double rate, std::int64_t memory) {
  Question question = with_links(equal_layers(8, 1, 3, memory), rate);
  for (chain::LayerCost& layer : question.chain.layers) {
    layer.parameters = layer.trained = Bytes(10);
    layer.gradients = layer.trained_gradients = Bytes(20);
    layer.optimizer = Bytes(40);
  }
  question.streamed = std::nullopt;
  question.optimizer_copies = std::nullopt;
  question.platform.ranks[0].host = Bytes(1000);
  return question;
}

// Static bytes of two of the eight layers of 70 remain, and the gradients of a third, which are
// copied out.
TEST(WeightsPlace, OfTrainedWeightsTakesTheirGradientsAndState) {
  Question question = equal_trained(100, 1000);
  question.solver = "keep_all";
  const Bytes needed = keep_all_budget(question);
  question.platform.ranks[0].memory = needed - Bytes(8 * 70) + Bytes(2 * 30 + 20);
  const plan::Plan plan = planned(question);
  expect_sound(question, plan);
  EXPECT_EQ(streamed(plan).size(), 8U);
  EXPECT_EQ(plan.stages[0].static_bytes, Bytes(2 * 30 + 20));
  EXPECT_EQ(plan.stages[0].offloaded_optimizer, Bytes(8 * 40));
  question.platform.ranks[0].memory -= Bytes(1);
  EXPECT_TRUE(std::holds_alternative<plan::Infeasible>(partition::plan(question)));
}

// One layer that is much larger than the others would need room for its gradients on their way out,
// too.
TEST(WeightsPlace, OfALayerLargerThanAllOthersIsTheDevice) {
  Question question = equal_trained(100, 0);
  chain::LayerCost& head = question.chain.layers.back();
  head.parameters = head.trained = Bytes(1000);
  head.gradients = head.trained_gradients = Bytes(2000);
  question.platform.ranks[0].host = Bytes(100'000);
  question.streamed = all_to_stream(question.chain);
  question.optimizer_copies = kAnyTime;
  const plan::Plan plan = planned(question);
  EXPECT_EQ(streamed(plan), (std::vector<int>{1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(plan.stages[0].static_bytes, Bytes(3000 + 2 * 30 + 20));
}

TEST(WeightsPlace, FollowsTheRateOfTheLink) {
  Question question = equal_frozen(1, 0.01, 80 + 19);
  question.solver = "rotor";
  EXPECT_TRUE(streamed(planned(question)).empty()) << "to run again costs less than such copies";
  question = equal_frozen(1, 1000, 80 + 19);
  question.solver = "rotor";
  const plan::Plan fast = planned(question);
  EXPECT_FALSE(streamed(fast).empty());
  EXPECT_EQ(fast.recompute, Seconds(0));
}

TEST(WeightsPlace, OffloadIsAllOfThemWhereThatSavesBytes) {
  Question question = equal_frozen(2, 2, 0);
  question.streamed = streamed_layers_of("offload", question.chain);
  question.cut = std::vector<int>{3};
  const plan::Plan plan = planned(question);
  expect_sound(question, plan);
  EXPECT_EQ(plan.stages[0].streamed, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(plan.stages[0].static_bytes, Bytes(20));
  EXPECT_EQ(plan.stages[1].static_bytes, Bytes(20));
  // Two layers are on the device at a time, so a stage of two would stream none.
  question.cut = std::vector<int>{2};
  EXPECT_TRUE(planned(question).stages[0].streamed.empty());
  EXPECT_EQ(planned(question).stages[0].static_bytes, Bytes(20));
}

TEST(WeightsPlace, NeedsRoomInTheOffloadTierAndALaneFromThere) {
  Question question = equal_frozen(1, 2, 0);
  question.streamed = all_to_stream(question.chain);
  question.platform.ranks[0].host = Bytes(64);
  EXPECT_EQ(streamed(planned(question)).size(), 6U);
  question.platform.ranks[0].in = BytesPerSecond(0);
  EXPECT_TRUE(streamed(planned(question)).empty());
}

TEST(WeightsPlace, SharesTheOffloadTierWithTheOptimizersState) {
  Question question = equal_frozen(1, 2, 0);
  for (chain::LayerCost& layer : question.chain.layers) layer.optimizer = Bytes(10);
  question.streamed = all_to_stream(question.chain);
  question.optimizer_copies = kAnyTime;
  question.platform.ranks[0].host = Bytes(128);
  const plan::Plan plan = planned(question);
  expect_sound(question, plan);
  EXPECT_EQ(streamed(plan).size(), 8U);
  EXPECT_EQ(plan.stages[0].offloaded_optimizer, Bytes(128 / 16 * 15 - 80));
}

// A step never holds the first and the last layer together; validation does, between its last
// forward and the next first one.
TEST(WeightsPlace, LeavesValidationItsBytesWhereStateComesBack) {
  int plans = 0;
  for (std::int64_t memory = 100; memory < 300; memory += 200 / trials(200)) {
    SCOPED_TRACE(memory);
    Question question =
        with_frozen(with_links(equal_layers(8, 1, 3, memory), 2), {50, 2, 2, 2, 2, 2, 2, 50});
    for (chain::LayerCost& layer : question.chain.layers) layer.optimizer = Bytes(10);
    question.streamed = all_to_stream(question.chain);
    question.optimizer_copies = std::nullopt;
    question.platform.ranks[0].host = Bytes(1000);
    const Answer answer = partition::plan(question);
    const auto* const plan = std::get_if<plan::Plan>(&answer);
    if (plan == nullptr) continue;
    ++plans;
    const Bytes of_last = question.chain.output(7) + question.chain.output(8);
    EXPECT_LE(plan->stages[0].static_bytes + of_last, Bytes(memory));
  }
  EXPECT_GE(plans, trials(100));
}

// Where the trained layers' state takes most of the memory, it alone is offloaded, as it would be
// if no weights could be.
TEST(WeightsPlace, NeverCostsTimeBesideStateThatMayGo) {
  std::mt19937 random(8);
  int offloaded = 0;
  for (int trial = 0; trial < trials(20); ++trial) {
    SCOPED_TRACE(trial);
    Question question = small_question_with_weights(
        random, {.least_layers = 3, .least_stages = 1, .most_stages = 2});
    for (chain::LayerCost& layer : question.chain.layers)
      layer.optimizer = Bytes(between(random, 0, 12));
    question.optimizer_copies = std::nullopt;
    const auto [plan, other] = beside_resident(question);
    if (other && plan::offloaded_optimizer(*other).front() > Bytes(0)) ++offloaded;
  }
  EXPECT_GE(offloaded, trials(4));
}

/// Every set of streamable layers.
std::vector<std::vector<int>> all_sets(const chain::Chain& chain) {
  const std::vector<int> layers = all_to_stream(chain);
  std::vector<std::vector<int>> sets(std::size_t{1} << layers.size());
  for (std::size_t set = 0; set < sets.size(); ++set)
    for (std::size_t i = 0; i < layers.size(); ++i)
      if ((set >> i & 1) != 0) sets[set].push_back(layers[i]);
  return sets;
}

// Oracle: every set of layers.
TEST(WeightsPlace, OfOneRankIsNearTheBestOfAllSetsOfLayers) {
  std::mt19937 random(5);
  int looked = 0, moved = 0, best = 0;
  double sum = 0, worst = 1;
  for (int trial = 0; trial < trials(120, 0.25); ++trial) {
    SCOPED_TRACE(trial);
    Question question = small_question_with_weights(
        random, {.least_layers = 3, .least_stages = 1, .most_stages = 1});
    question.solver = "rotor";
    Seconds least = kAnyTime;
    for (const std::vector<int>& set : all_sets(question.chain)) {
      Question fixed = question;
      fixed.streamed = set;
      const Answer answer = partition::plan(fixed);
      if (const auto* plan = std::get_if<plan::Plan>(&answer)) least = std::min(least, plan->step);
    }
    const Answer answer = partition::plan(question);
    const auto* plan = std::get_if<plan::Plan>(&answer);
    ASSERT_EQ(plan != nullptr, least < kAnyTime);
    if (plan == nullptr) continue;
    EXPECT_GE(plan->step.count(), least.count() * (1 - 1e-9));
    ++looked;
    if (!streamed(*plan).empty()) ++moved;
    if (plan->step.count() <= least.count() * (1 + 1e-9)) ++best;
    sum += plan->step / least;
    worst = std::max(worst, plan->step / least);
  }
  std::printf(
      "%d cases, %d with streamed weights, %d optimal, the mean %.3f and the worst %.3f of the "
      "optimum\n",
      looked, moved, best, sum / looked, worst);
  EXPECT_GE(moved, trials(20, 0.25));
  EXPECT_GE(best, looked * 9 / 10);
  EXPECT_LE(sum / looked, 1.01);
  EXPECT_LE(worst, 1.1);
}

TEST(WeightsPlace, IsSoundAndNeverCostsTimeInPipelines) {
  std::mt19937 random(6);
  int moved = 0, saved = 0;
  for (int trial = 0; trial < trials(60, 0.25); ++trial) {
    SCOPED_TRACE(trial);
    const Question question = small_question_with_weights(
        random, {.least_layers = 6, .most_layers = 9, .most_stages = 2});
    const auto [plan, other] = beside_resident(question);
    if (!plan) continue;
    if (!streamed(*plan).empty()) ++moved;
    if (!other) ++saved;
  }
  std::printf("%d plans with streamed weights, %d where nothing else fits\n", moved, saved);
  EXPECT_GE(moved, trials(5, 0.25));
  EXPECT_GE(saved, trials(2, 0.25));
}

// Large and small layers alternate: the copy of a large layer does not finish during a small one,
// unless it starts while the large layer before is in use.
TEST(WeightsPlace, MoreLayersAtATimeHideCopiesOfUnequalOnes) {
  Question question =
      with_frozen(with_links(equal_layers(8, 1, 3, 0), 20), {10, 30, 10, 30, 10, 30, 10, 30});
  for (const bool offload : {true, false}) {
    if (offload) question.streamed = all_to_stream(question.chain);
    const auto step = [&](std::optional<int> at_once) {
      question.weights_at_once = at_once;
      return planned(question).step;
    };
    question.platform.ranks[0].memory = keep_all_budget(question) - Bytes(60);
    const Seconds two = step(2), three = step(3), best = step(std::nullopt);
    EXPECT_LE(best, std::min(two, three));
    const plan::Plan plan = planned(question);
    expect_sound(question, plan);
    if (offload) {
      EXPECT_LT(three, two);
      EXPECT_EQ(plan.weights_at_once, 3);
      EXPECT_EQ(plan.stages[0].static_bytes, Bytes(90));
    }
    question.streamed = std::nullopt;
  }
}

// No set of layers fits where all of them do not.
TEST(WeightsPlace, TheLeastBudgetIsThatWithAllOfThemStreamed) {
  std::mt19937 random(7);
  int lacking = 0;
  for (int trial = 0; trial < trials(80); ++trial) {
    SCOPED_TRACE(trial);
    Question question = small_question_with_weights(
        random, {.least_layers = 3, .least_stages = 1, .most_stages = 1});
    question.solver = "rotor";
    question.platform.ranks[0].host = Bytes(1000);
    question.platform.ranks[0].memory = Bytes(6);
    const Answer answer = partition::plan(question);
    const auto* why = std::get_if<plan::Infeasible>(&answer);
    if (why == nullptr) continue;
    ++lacking;
    question.platform.ranks[0].memory = why->least_budget;
    EXPECT_TRUE(std::holds_alternative<plan::Plan>(partition::plan(question)));
    question.platform.ranks[0].memory -= Bytes(1);
    for (const std::vector<int>& set : all_sets(question.chain)) {
      question.streamed = set;
      EXPECT_TRUE(std::holds_alternative<plan::Infeasible>(partition::plan(question)));
    }
  }
  EXPECT_GE(lacking, trials(40));
}

TEST(WeightsPlace, OfThreeNamesAndNoOther) {
  const chain::Chain chain = with_frozen(equal_layers(4, 1, 1, 0), {0, 5, 0, 7}).chain;
  EXPECT_EQ(streamed_layers_of("auto", chain), std::nullopt);
  EXPECT_EQ(streamed_layers_of("device", chain), std::vector<int>{});
  EXPECT_EQ(streamed_layers_of("offload", chain), (std::vector<int>{2, 4}));
  EXPECT_THROW(streamed_layers_of("host", chain), LogicError);
}

}  // namespace
}  // namespace trireme::partition
