// Streamed weights together with offloaded optimizer state, on ranks that share an offload tier or
// have several stages.
// SPDX-License-Identifier: Apache-2.0
#include "partition/planned.h"
#include "partition/weighed.h"
#include "support/trials.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <variant>

namespace trireme::partition {
namespace {

std::optional<Seconds> step_of(const Question& question) {
  const Answer answer = partition::plan(question);
  const auto* const plan = std::get_if<plan::Plan>(&answer);
  if (plan == nullptr) return std::nullopt;
  expect_sound(question, *plan);
  return plan->step;
}

/// Every rank offloads between nothing and all of its own stages' state.
void expect_state_within_stages(const Question& question, const plan::Plan& plan) {
  for (const plan::StagePlan& stage : plan.stages) {
    EXPECT_GE(stage.offloaded_optimizer, Bytes(0));
    EXPECT_LE(stage.offloaded_optimizer,
              chain::optimizer_bytes(question.chain, stage.program.first_layer,
                                     stage.program.last_layer));
    EXPECT_GE(stage.static_bytes, Bytes(0));
  }
}

// A rank with several stages whose later one streams weights that take the host's room from the
// state of the first one.
TEST(SeveralPlaces, RanksWithSeveralStagesKeepTheirOffloadTier) {
  std::mt19937 random(8);
  int several = 0;
  for (int trial = 0; trial < trials(40); ++trial) {
    SCOPED_TRACE(trial);
    Question question = small_question_with_weights(
        random, {.least_layers = 5, .most_layers = 8, .most_stages = 2});
    if (question.stages == 1) continue;
    Bytes all;
    for (chain::LayerCost& layer : question.chain.layers) {
      layer.optimizer = Bytes(between(random, 0, 30));
      all += layer.optimizer + layer.may_leave().all();
    }
    for (chain::RankSpec& rank : question.platform.ranks) {
      rank.memory += all / 3;
      rank.host = all * between(random, 1, 6) / 8;
      rank.speed = between(random, 1, 3);
    }
    question.solver = "madpipe";
    question.streamed = all_to_stream(question.chain);
    for (const auto& copies : {std::optional<Seconds>(), std::optional(kAnyTime)}) {
      question.optimizer_copies = copies;
      const Answer answer = partition::plan(question);
      const auto* const plan = std::get_if<plan::Plan>(&answer);
      if (plan == nullptr) continue;
      expect_sound(question, *plan);
      expect_state_within_stages(question, *plan);
      if (plan->stages.size() > 2 && !streamed(*plan).empty()) ++several;
    }
  }
  std::printf("%d plans of ranks with several stages and streamed weights\n", several);
  EXPECT_GE(several, trials(4));
}

/// Eight equal layers on ranks of speed 1 and 10, with a kilobyte of weights and of gradients, or
/// two of state.
Question unequal_ranks(std::int64_t memory, bool has_state) {
  Question question = with_links(equal_layers(8, 2, 4, memory), 1e9);
  for (chain::LayerCost& layer : question.chain.layers) {
    if (has_state) {
      layer.optimizer = Bytes(2000);
      continue;
    }
    layer.parameters = layer.trained = Bytes(1000);
    layer.gradients = layer.trained_gradients = Bytes(1000);
  }
  question.platform.ranks[1].speed = 10;
  question.streamed = has_state ? std::optional(std::vector<int>{}) : std::nullopt;
  question.optimizer_copies = has_state ? std::nullopt : std::optional(Seconds(0));
  return question;
}

// Where everything just fits, the fast rank might be given more layers.
TEST(SeveralPlaces, MoreMemoryIsNoReasonForASlowerCut) {
  for (const bool has_state : {false, true}) {
    Question offloaded = unequal_ranks(9000, has_state);
    offloaded.streamed = has_state ? std::vector<int>{} : all_to_stream(offloaded.chain);
    offloaded.optimizer_copies = has_state ? kAnyTime : Seconds(0);
    const std::optional<Seconds> least = step_of(offloaded);
    ASSERT_TRUE(least);
    std::optional<Seconds> before;
    for (std::int64_t memory = 8000; memory < 9400; memory += 200 / trials(4)) {
      SCOPED_TRACE(memory);
      const std::optional<Seconds> step = step_of(unequal_ranks(memory, has_state));
      ASSERT_TRUE(step || !before);
      if (before) {
        EXPECT_LE(step->count(), before->count() * 1.01);
      }
      if (memory >= 9000) {
        ASSERT_TRUE(step);
        EXPECT_LE(step->count(), least->count() * 1.01);
      }
      before = step;
    }
  }
}

// A layer that just fits in host memory displaces many that save more.
TEST(SeveralPlaces, MoreHostMemoryNeverTakesAPlanAway) {
  Question question = with_frozen(with_links(equal_layers(7, 1, 2, 2000), 1000),
                                  {1000, 200, 200, 200, 200, 200, 200});
  std::optional<Seconds> before;
  for (std::int64_t host = 800; host < 3000; host += 100) {
    SCOPED_TRACE(host);
    question.platform.ranks[0].host = Bytes(host);
    const std::optional<Seconds> step = step_of(question);
    ASSERT_TRUE(step || !before);
    if (before) {
      EXPECT_LE(*step, *before);
    }
    before = step;
  }
  EXPECT_TRUE(before);
}

}  // namespace
}  // namespace trireme::partition
