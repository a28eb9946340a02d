// Small questions whose layers have streamable weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "judge/judge.h"
#include "partition/planned.h"

#include <optional>
#include <random>
#include <vector>

namespace trireme::partition {

/// Layers that a plan streams, over all its stages.
inline std::vector<int> streamed(const plan::Plan& plan) {
  std::vector<int> layers;
  for (const plan::StagePlan& stage : plan.stages)
    layers.insert(layers.end(), stage.streamed.begin(), stage.streamed.end());
  return layers;
}

/// A validation of three micro-batches, or groups of them, keeps the budgets.
inline void expect_validation_fits(const Question& question, const plan::Plan& plan) {
  const simulate::Simulation forwards = simulate::simulate(
      plan::compile_forwards(plan, 3 * plan.group, plan::streaming(plan, question.chain)),
      setting_of(question, plan), simulate::Detail::kSummary);
  ASSERT_FALSE(forwards.fault);
  for (const plan::StagePlan& stage : plan.stages) {
    const auto rank = static_cast<std::size_t>(stage.rank);
    const Bytes memory = question.platform.ranks[rank].memory;
    if (memory > Bytes(0)) {
      EXPECT_LE(needed(forwards.ranks[rank]), memory);
    }
  }
}

/// Gives layers frozen weights of these sizes with an open placement.
inline Question with_frozen(Question question, const std::vector<std::int64_t>& sizes) {
  for (std::size_t i = 0; i < sizes.size(); ++i)
    question.chain.layers[i].parameters = question.chain.layers[i].frozen = Bytes(sizes[i]);
  question.streamed = std::nullopt;
  return question;
}

/// Random weights, of all layers frozen, trained or one or the other, and an offload tier for every
/// rank; budgets with room for some of them.
inline Question small_question_with_weights(std::mt19937& random, const Sizes& sizes) {
  Question question = small_question(random, sizes);
  const int kind = between(random, 0, 2);
  Bytes gradients;
  for (chain::LayerCost& layer : question.chain.layers) {
    layer.parameters = Bytes(3 * between(random, 0, 4));
    if (kind == 0 || (kind == 1 && between(random, 0, 1) == 0)) {
      layer.frozen = layer.parameters;
      continue;
    }
    layer.trained = layer.parameters;
    layer.gradients = layer.trained_gradients = layer.trained * between(random, 1, 2);
    layer.update = Seconds(between(random, 0, 2));
    gradients += layer.gradients;
  }
  for (chain::RankSpec& rank : question.platform.ranks) {
    rank.memory += Bytes(between(random, 6, 24)) + gradients * between(random, 1, 4) / 4;
    rank.host = Bytes(between(random, 10, 200)) + gradients;
    rank.out = rank.in = BytesPerSecond(between(random, 1, 12));
  }
  question.streamed = std::nullopt;
  return question;
}

}  // namespace trireme::partition
