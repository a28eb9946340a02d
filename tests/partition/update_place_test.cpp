// Overlapped optimizer step of streamed layers: when, and what it gains.
// SPDX-License-Identifier: Apache-2.0
#include "partition/planned.h"
#include "partition/weighed.h"
#include "support/trials.h"

#include "trireme/core/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <random>
#include <utility>

namespace trireme::partition {
namespace {

using program::UpdatePlace;

/// Twelve equal layers with 10 bytes of trained weights each, 20 of gradients, 120 of state, of
/// which a rank has room for a few; 8 micro-batches, whose passes hide some of the copies.
Question twelve_trained() {
  Question question = with_links(equal_layers(12, 1, 8, 150), 10);
  for (chain::LayerCost& layer : question.chain.layers) {
    layer.parameters = layer.trained = Bytes(10);
    layer.gradients = layer.trained_gradients = Bytes(20);
    layer.optimizer = Bytes(120);
    layer.update = Seconds(0.5);
  }
  question.streamed = std::nullopt;
  question.weights_at_once = std::nullopt;
  question.optimizer_copies = std::nullopt;
  question.group = std::nullopt;
  question.updates = std::nullopt;
  return question;
}

TEST(UpdatePlace, IsAmongThePassesWhereThatIsFaster) {
  for (const bool clips : {true, false}) {
    Question question = twelve_trained();
    question.clips = clips;
    const plan::Plan plan = planned(question);
    expect_sound(question, plan);
    EXPECT_EQ(plan.updates, clips ? UpdatePlace::kInForward : UpdatePlace::kInBackward);
    EXPECT_EQ(plan.update_window, Bytes(120 / 4));
    const plan::Alternative* const then = alternative(plan, "updates at the end");
    ASSERT_NE(then, nullptr);
    ASSERT_TRUE(then->step);
    question.updates = UpdatePlace::kAtEnd;
    const plan::Plan at_end = planned(question);
    EXPECT_EQ(at_end.updates, UpdatePlace::kAtEnd);
    EXPECT_EQ(at_end.update_window, Bytes(0));
    EXPECT_LT(plan.step, at_end.step);
    EXPECT_LT(plan.step, *then->step);
  }
}

// After backwards more passes hide the copies, and gradients never leave the device.
TEST(UpdatePlace, BehindBackwardsIsFasterThanBeforeForwards) {
  Question question = twelve_trained();
  question.clips = false;
  const Seconds behind = planned(question).step;
  question.clips = true;
  EXPECT_LT(behind, planned(question).step);
}

TEST(UpdatePlace, OfReplicasIsBeforeForwards) {
  Question question = twelve_trained();
  question.clips = false;
  question.replicas = 2;
  const plan::Plan plan = planned(question);
  expect_sound(question, plan);
  EXPECT_EQ(plan.updates, UpdatePlace::kInForward);
}

TEST(UpdatePlace, IsTheEndWhereNoTrainedWeightsComeAndGo) {
  Question roomy = twelve_trained();
  roomy.platform.ranks[0].memory = Bytes(100'000);
  EXPECT_EQ(planned(roomy).updates, UpdatePlace::kAtEnd);
  Question resident = twelve_trained();
  resident.streamed.emplace();
  resident.platform.ranks[0].memory = Bytes(600);
  EXPECT_EQ(planned(resident).updates, UpdatePlace::kAtEnd);
  Question frozen = twelve_trained();
  for (chain::LayerCost& layer : frozen.chain.layers) {
    layer.frozen = std::exchange(layer.trained, Bytes(0));
    layer.gradients = layer.trained_gradients = layer.optimizer = Bytes(0);
  }
  frozen.platform.ranks[0].memory = Bytes(70);
  const plan::Plan plan = planned(frozen);
  EXPECT_FALSE(streamed(plan).empty());
  EXPECT_EQ(plan.updates, UpdatePlace::kAtEnd);
}

// Pipelines use it where asked for, though their planner does not choose it.
TEST(UpdatePlace, OfPipelinesIsWhatIsAskedFor) {
  Question question = twelve_trained();
  question.stages = 2;
  question.platform = with_links(equal_layers(12, 2, 8, 150), 10).platform;
  question.weights_at_once = 2;
  question.group = 1;
  question.streamed = all_to_stream(question.chain);
  question.optimizer_copies = kAnyTime;
  EXPECT_EQ(planned(question).updates, UpdatePlace::kAtEnd);
  for (const UpdatePlace place : {UpdatePlace::kInForward, UpdatePlace::kInBackward}) {
    question.updates = place;
    const plan::Plan plan = planned(question);
    expect_sound(question, plan);
    EXPECT_EQ(plan.updates, place);
    EXPECT_EQ(plan.update_window, Bytes(30));
    for (const std::vector<int>& layers : plan::updated_layers(plan)) EXPECT_FALSE(layers.empty());
    Question shared = question;
    shared.solver = "madpipe";
    expect_sound(shared, planned(shared));
  }
}

// Where the usual window is too large, a part of it is used, down to the least budget that is
// reported.
TEST(UpdatePlace, TakesASmallerWindowWhereNothingFitsOtherwise) {
  Question question = twelve_trained();
  for (chain::LayerCost& layer : question.chain.layers) layer.optimizer = Bytes(1200);
  question.updates = UpdatePlace::kInForward;
  question.streamed = all_to_stream(question.chain);
  question.optimizer_copies = kAnyTime;
  question.weights_at_once = 2;
  question.group = 1;
  question.solver = "rotor";
  question.platform.ranks[0].memory = Bytes(1);
  const Answer answer = partition::plan(question);
  const Bytes least = std::get<plan::Infeasible>(answer).least_budget;
  question.platform.ranks[0].memory = least;
  const plan::Plan plan = planned(question);
  expect_sound(question, plan);
  EXPECT_EQ(plan.update_window, Bytes(1200 / 4 / 16));
  question.platform.ranks[0].memory = least + Bytes(1200 / 4 - 1200 / 4 / 16);
  EXPECT_EQ(planned(question).update_window, Bytes(1200 / 4));
  question.platform.ranks[0].memory -= Bytes(1);
  EXPECT_EQ(planned(question).update_window, Bytes(1200 / 4 / 4));
}

TEST(UpdatePlace, NeverCostsTime) {
  std::mt19937 random(12);
  int among = 0, looked = 0;
  double best = 1, sum = 0;
  for (int trial = 0; trial < trials(100); ++trial) {
    SCOPED_TRACE(trial);
    Question question = small_question_with_weights(
        random, {.least_layers = 7, .most_layers = 9, .least_stages = 1, .most_stages = 1});
    for (chain::LayerCost& layer : question.chain.layers) {
      layer.frozen = Bytes(0);
      layer.trained = layer.gradients = layer.trained_gradients = layer.parameters;
      layer.optimizer = layer.trained * between(random, 0, 6);
      layer.update = Seconds(between(random, 0, 2));
    }
    question.platform.ranks[0].host = Bytes(2000);
    question.platform.ranks[0].memory = keep_all_budget(question) * between(random, 25, 70) / 100;
    question.optimizer_copies = std::nullopt;
    question.group = std::nullopt;
    question.updates = std::nullopt;
    question.clips = between(random, 0, 1) == 0;
    Question at_end = question;
    at_end.updates = UpdatePlace::kAtEnd;
    const Answer answer = partition::plan(question), other = partition::plan(at_end);
    const auto* const plan = std::get_if<plan::Plan>(&answer);
    const auto* const then = std::get_if<plan::Plan>(&other);
    if (plan != nullptr) expect_sound(question, *plan);
    if (then == nullptr) continue;
    ASSERT_NE(plan, nullptr);
    ++looked;
    among += plan->updates != UpdatePlace::kAtEnd;
    const double ratio = plan->step / then->step;
    sum += ratio;
    best = std::min(best, ratio);
    EXPECT_LE(ratio, 1 + 1e-9);
  }
  std::printf(
      "%d choices, %d of an overlapped optimizer step; steps relative to updates at the end: the "
      "mean %.3f, the best %.3f\n",
      looked, among, sum / looked, best);
  EXPECT_GE(among, trials(15));
}

TEST(UpdatePlace, OfFourNamesAndNoOther) {
  EXPECT_EQ(updates_of("auto"), std::nullopt);
  EXPECT_EQ(updates_of("at_end"), UpdatePlace::kAtEnd);
  EXPECT_EQ(updates_of("in_forward"), UpdatePlace::kInForward);
  EXPECT_EQ(updates_of("in_backward"), UpdatePlace::kInBackward);
  EXPECT_THROW(updates_of("later"), LogicError);
}

}  // namespace
}  // namespace trireme::partition
