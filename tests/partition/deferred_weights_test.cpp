// Deferred weight gradients (split backward): by how many passes, and what that gains.
// SPDX-License-Identifier: Apache-2.0
#include "axes/axis.h"
#include "axes/split_backward.h"
#include "partition/planned.h"
#include "support/trials.h"

#include "trireme/schedule/named.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <random>
#include <string>
#include <utility>

namespace trireme::partition {
namespace {

/// Equal layers whose forwards and both parts of whose backwards take 1, and 3 bytes of tapes leave
/// 2 for the second part.
Question thirds(int layers, int stages, int micro_batches, std::int64_t memory) {
  Question question = equal_layers(layers, stages, micro_batches, memory);
  for (chain::LayerCost& layer : question.chain.layers)
    layer.split = {Seconds(1), Bytes(2), layer.backward_transient + Bytes(2), Bytes(1)};
  return question;
}

std::optional<plan::Plan> delayed(const Question& question, const plan::Plan& plan) {
  auto found = with_weights_delayed(question, plan);
  return found ? std::move(found->plan) : std::nullopt;
}

Question whole(Question question) {
  question.splits_backward = false;
  return question;
}

TEST(DeferredWeights, AreAsManyAsZbH1HasWhereThereIsRoom) {
  for (int stages = 2; stages <= 4; ++stages) {
    const int layers = 2 * stages, micro_batches = 2 * stages;
    const Question question = thirds(layers, stages, micro_batches, 0);
    const plan::Plan plan = planned(question);
    expect_sound(question, plan);
    const std::vector<std::optional<int>> deferred = plan::deferred_passes(plan);
    EXPECT_EQ(deferred[0], std::nullopt);  // no rank waits for it
    for (int k = 1; k < stages; ++k) EXPECT_EQ(deferred[static_cast<std::size_t>(k)], k);
    // Qi et al. 2024, table 2, with two layers in a stage.
    EXPECT_EQ(plan.step, Seconds(2 * (3 * micro_batches + stages - 1)));
    const plan::Alternative* const before = alternative(plan, "whole backwards");
    ASSERT_NE(before, nullptr);
    EXPECT_EQ(before->step, Seconds(2 * 3 * (micro_batches + stages - 1)));
    EXPECT_EQ(planned(whole(question)).step, before->step);
  }
}

TEST(DeferredWeights, AreNoneWhereNobodyWaitsOrNothingIsLeft) {
  EXPECT_FALSE(plan::has_split_backward(planned(thirds(4, 1, 4, 0))));
  EXPECT_FALSE(plan::has_split_backward(planned(equal_layers(4, 2, 4, 0))));
  EXPECT_FALSE(plan::has_split_backward(planned(whole(thirds(4, 2, 4, 0)))));
  // Recomputing everything without a budget is asked for to save memory.
  Question lean = thirds(4, 2, 4, 0);
  lean.solver = "recompute_all";
  EXPECT_FALSE(plan::has_split_backward(planned(lean)));
}

TEST(DeferredWeights, AreOfGpipeToo) {
  Question question = thirds(4, 2, 4, 0);
  question.schedule = "gpipe";
  const plan::Plan plan = planned(question);
  expect_sound(question, plan);
  EXPECT_TRUE(plan::has_split_backward(plan));
  EXPECT_LT(plan.step, planned(whole(question)).step);
}

// Ranks with several stages cannot split backwards: the best plan with one stage per rank does.
TEST(DeferredWeights, BeatRanksWithSeveralStages) {
  const std::string configs = std::string(TRIREME_SOURCE_DIR) + "/configs/";
  Question question;
  question.chain = chain::load_chain(configs + "chains/gpt-1.3b.yaml");
  question.platform = chain::load_platform(configs + "platforms/h100-80-nvlink-8.yaml");
  question.stages = 8;
  question.micro_batches = 16;
  const plan::Plan before = planned(whole(question)), plan = planned(question);
  ASSERT_EQ(before.solver, "madpipe");
  EXPECT_FALSE(plan::has_rank_for_each_stage(before));
  expect_sound(question, plan);
  EXPECT_TRUE(plan::has_split_backward(plan));
  EXPECT_LT(plan.step, before.step);
}

// From the least memory on: every plan keeps to it, and none is slower than with whole backwards.
TEST(DeferredWeights, AreAsManyAsThereIsRoomFor) {
  int some = 0, fewer = 0;
  for (std::int64_t memory = 8; memory <= 40; memory += 2) {
    const Question question = thirds(6, 3, 6, memory);
    const Answer before = plan(whole(question));
    if (!std::holds_alternative<plan::Plan>(before)) continue;
    const plan::Plan plan = planned(question);
    expect_sound(question, plan);
    EXPECT_LE(plan.step, std::get<plan::Plan>(before).step);
    some += plan::has_split_backward(plan) ? 1 : 0;
    const std::vector<std::optional<int>> deferred = plan::deferred_passes(plan);
    for (std::size_t k = 1; k < 3; ++k)
      fewer += plan::has_split_backward(plan) && deferred[k] != static_cast<int>(k) ? 1 : 0;
  }
  EXPECT_GT(some, 8);
  EXPECT_GT(fewer, 3);
}

/// small_question() with split costs for some layers.
Question small_split(std::mt19937& random) {
  Question question = small_question(random, {.least_layers = 3, .most_micro_batches = 5});
  for (chain::LayerCost& layer : question.chain.layers) {
    if (between(random, 0, 4) == 0) continue;
    layer.split = {layer.backward / between(random, 1, 4), Bytes(between(random, 0, 5)),
                   layer.backward_transient + Bytes(between(random, 0, 5)),
                   Bytes(between(random, 0, 2))};
  }
  return question;
}

// Where tapes fill the memory, a plan that leaves some for pending values may be faster.
TEST(DeferredWeights, AreGivenRoomWhereThatIsFaster) {
  std::mt19937 random(20261127);
  int cases = 0, gained = 0;
  double best = 1;
  for (int trial = 0; trial < trials(300); ++trial) {
    const Question question = small_split(random);
    const Answer before = plan(whole(question));
    const auto* const found = std::get_if<plan::Plan>(&before);
    if (found == nullptr) continue;
    const auto behind = delayed(question, *found);
    const Seconds as_it_is = behind ? behind->step : found->step;
    const plan::Plan with_room = planned(question);
    expect_sound(question, with_room);
    EXPECT_LE(with_room.step, as_it_is);
    ++cases;
    gained += with_room.step < as_it_is ? 1 : 0;
    best = std::min(best, with_room.step / as_it_is);
  }
  std::printf("%d cases, %d faster with room for what waits, at best %.3f\n", cases, gained, best);
  EXPECT_GT(gained, 0);
}

/// The search's lower bound on the step of the plan's split backward.
Seconds bound_of(const Question& question, const plan::Plan& plan) {
  Log log;
  Choices choices;
  log.add({.choices = choices, .answer = plan});
  choices.splits_backward = true;
  return kSplitBackward.bound(question, log, choices);
}

/// The fastest of all deferrals that fit, with this plan's programs.
Seconds best_of_all(const Question& question, const plan::Plan& plan) {
  Seconds best = plan.step;
  std::vector<int> numbers(plan.stages.size(), -1);  // -1: whole
  for (;;) {
    plan::Plan other = plan;
    std::vector<std::optional<int>> deferred(numbers.size());
    for (std::size_t k = 0; k < numbers.size(); ++k)
      if (numbers[k] >= 0) deferred[k] = numbers[k];
    plan::set_order(
        other, schedule::one_f_one_b_with(plan::in_flight(plan), plan.micro_batches, deferred));
    bool is_within =
        !simulate::validate(plan::compile(other, question.chain), setting_of(question, other));
    const auto simulation = simulated(question, other, simulate::Detail::kFigures);
    for (std::size_t k = 0; k < simulation.ranks.size(); ++k) {
      const Bytes memory = question.platform.ranks[k].memory;
      is_within = is_within && (memory == Bytes(0) || simulation.ranks[k].peak.size <= memory);
    }
    if (is_within) best = std::min(best, simulation.step);
    std::size_t k = 0;
    while (k < numbers.size() && ++numbers[k] == plan.micro_batches) numbers[k++] = -1;
    if (k == numbers.size()) return best;
  }
}

TEST(DeferredWeights, AreNearTheBestOfAllNumbers) {
  std::mt19937 random(20261126);
  int cases = 0, split = 0, optimal = 0;
  double sum = 0, worst = 1;
  for (int trial = 0; trial < trials(400); ++trial) {
    const Question question = small_split(random);
    Question asked = whole(question);
    asked.solver = "joint";
    const Answer answer = plan(asked);
    const auto* const found = std::get_if<plan::Plan>(&answer);
    if (found == nullptr) continue;
    const auto behind = delayed(question, *found);
    if (behind) expect_sound(question, *behind);
    const Seconds step = behind ? behind->step : found->step;
    const Seconds best = best_of_all(question, *found);
    EXPECT_GT(bound_of(question, *found), Seconds(0));
    EXPECT_LE(bound_of(question, *found).count(), best.count() * (1 + 1e-9));
    const double ratio = step / best;
    ++cases;
    split += behind ? 1 : 0;
    optimal += ratio <= 1 + 1e-9 ? 1 : 0;
    sum += ratio;
    worst = std::max(worst, ratio);
  }
  std::printf(
      "%d cases, %d with deferred weight gradients, %d optimal, the mean %.4f and the worst %.3f "
      "of the optimum\n",
      cases, split, optimal, sum / cases, worst);
  EXPECT_GT(cases, trials(400) / 2);
  EXPECT_GT(split, cases / 4);
  EXPECT_GT(optimal, cases * 9 / 10);
  EXPECT_LT(sum / cases, 1.002);
}

}  // namespace
}  // namespace trireme::partition
