// The axis of cuts that differ from the best one by a layer.
// SPDX-License-Identifier: Apache-2.0
#include "axes/axis.h"
#include "partition/planned.h"
#include "support/trials.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <random>
#include <variant>
#include <vector>

namespace trireme::partition {
namespace {

/// With split backwards and copies to an offload tier, which the cut search hardly models.
Question small_pipeline(std::mt19937& random) {
  Question question = small_question(
      random, {.least_layers = 5, .most_layers = 8, .least_stages = 2, .most_stages = 3});
  question.schedule = "1f1b";
  question.solver = "joint";
  for (chain::LayerCost& layer : question.chain.layers) {
    layer.split = {layer.backward / between(random, 2, 4), Bytes(between(random, 0, 3)),
                   layer.backward_transient + Bytes(between(random, 0, 3)),
                   Bytes(between(random, 0, 2))};
    layer.optimizer = Bytes(between(random, 0, 6));
  }
  question = with_links(std::move(question), between(random, 1, 4));
  question.optimizer_copies = std::nullopt;
  return question;
}

TEST(NeighbouringCuts, GiveALayerOfTheSlowestStagesToANeighbour) {
  const Question question = equal_layers(12, 3, 6, 0);
  Log log;
  Question given = question;
  given.cut = {5, 8};
  const Judged& best = log.add({.choices = Choices{.solver = "joint"}, .answer = planned(given)});
  std::vector<std::vector<int>> cuts;
  for (const Choices& one : kCut.moves({.question = question, .log = log, .best = best}))
    cuts.push_back(one.cut.value());
  // The first stage has five layers, the last four, the one between three.
  EXPECT_THAT(cuts, testing::ElementsAre(testing::ElementsAre(4, 8), testing::ElementsAre(5, 9),
                                         testing::ElementsAre(6, 8), testing::ElementsAre(5, 7)));
  EXPECT_TRUE(kCut.is_open(question));
  EXPECT_FALSE(kCut.is_open(given));
}

// Each cut is planned with everything else as open as in the question.
TEST(NeighbouringCuts, ComeNearTheBestOfEveryCut) {
  std::mt19937 random(41);
  int looked = 0, optimal = 0;
  double sum = 0, worst = 0;
  for (int trial = 0; trial < trials(30, 0.25); ++trial) {
    SCOPED_TRACE(trial);
    const Question question = small_pipeline(random);
    Seconds least = kAnyTime;
    for (const std::vector<int>& cut : every_cut(question.chain.length(), question.stages)) {
      Question fixed = question;
      fixed.cut = cut;
      const Answer answer = partition::plan(fixed);
      if (const auto* const plan = std::get_if<plan::Plan>(&answer))
        least = std::min(least, plan->step);
    }
    const Answer answer = partition::plan(question);
    const auto* const plan = std::get_if<plan::Plan>(&answer);
    if (plan != nullptr) expect_sound(question, *plan);
    if (least == kAnyTime) continue;
    ASSERT_NE(plan, nullptr);
    ++looked;
    const double ratio = plan->step / least;
    optimal += ratio <= 1 + 1e-9 ? 1 : 0;
    sum += ratio;
    worst = std::max(worst, ratio);
  }
  std::printf(
      "%d pipelines, %d optimal, the mean %.4f and the worst %.3f of the best of every cut\n",
      looked, optimal, sum / looked, worst);
  EXPECT_GE(looked, trials(15, 0.25));
  EXPECT_GE(optimal, looked * 8 / 10);
  EXPECT_LE(sum / looked, 1.01);
}

}  // namespace
}  // namespace trireme::partition
