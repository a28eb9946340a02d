// Stages x replicas and micro-batches.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/partition/shape.h"

#include "partition/instances.h"

#include "trireme/core/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace trireme::partition {
namespace {

/// Equal layers with f = 1, b = 2 and four bytes each of weights and gradients, measured at two
/// examples.
ShapeQuestion equal_ranks(int layers, int ranks, int batch) {
  chain::Chain chain = solve::without_loss(solve::homogeneous(layers));
  for (chain::LayerCost& layer : chain.layers) layer.parameters = layer.gradients = Bytes(4);
  ShapeQuestion question;
  question.chain_at = [chain](int size) { return scaled_chain(chain, 2, size); };
  question.common.platform = chain::uniform_platform(ranks, Bytes(0));
  question.ranks = ranks;
  question.batch = batch;
  question.common.slots = 0;
  return question;
}

const TriedShape& chosen(const ShapeAnswer& answer) {
  return answer.tried.at(answer.chosen.value());
}

TEST(Shape, IsTheFastestOfAllThatThereAre) {
  ShapeQuestion question = equal_ranks(8, 4, 8);
  question.common.platform.default_link = {BytesPerSecond(1), Seconds(0)};

  const ShapeAnswer answer = choose_shape(question);

  // 1 x 4: sizes 1, 2; 2 x 2: 1, 2, 4; 4 x 1: 1, 2, 4, 8.
  EXPECT_EQ(answer.tried.size(), 2U + 3U + 4U);
  int thorough = 0;
  for (const TriedShape& tried : answer.tried) {
    EXPECT_EQ(tried.shape.stages * tried.shape.replicas, 4);
    EXPECT_EQ(tried.shape.micro_batch * tried.shape.micro_batches * tried.shape.replicas, 8);
    const Question alone =
        question_of(question, tried.shape, question.chain_at(tried.shape.micro_batch));
    const plan::Plan plan = std::get<plan::Plan>(partition::plan(alone));
    const Seconds step = plan.step + reduce_time(question, tried.shape, alone.chain, plan);
    EXPECT_LE(chosen(answer).step(), step);
    EXPECT_LE(tried.least, step);
    if (!tried.answer) continue;
    EXPECT_EQ(std::max(tried.step(), step), tried.step());
    EXPECT_TRUE(tried.is_quick || tried.step() == step);
    thorough += tried.is_quick ? 0 : 1;
  }
  EXPECT_GE(thorough, 2);
}

TEST(Shape, ReplicasAloneHaveNoBubbleWhereLinksAreFree) {
  const ShapeAnswer answer = choose_shape(equal_ranks(8, 4, 8));

  EXPECT_EQ(chosen(answer).shape.replicas, 4);
  // Eight examples of 8 x (1 + 2) / 2 seconds on four ranks.
  EXPECT_EQ(chosen(answer).step(), Seconds(24));
}

TEST(Shape, ReducingTakesTheTimeOfARing) {
  ShapeQuestion question = equal_ranks(8, 4, 8);
  question.common.platform.default_link = {BytesPerSecond(2), Seconds(1)};
  question.common.platform.overrides.push_back({2, 0, {BytesPerSecond(1), Seconds(1)}});
  question.common.solver = "joint";
  const Shape shape{.stages = 2, .replicas = 2, .micro_batch = 1, .micro_batches = 4};
  const Question alone = question_of(question, shape, question.chain_at(1));
  const plan::Plan plan = std::get<plan::Plan>(partition::plan(alone));
  ASSERT_EQ(plan.stages[0].program.last_layer, 4);

  // 16 bytes of gradients between ranks 0 and 2: two messages of a half each.
  EXPECT_EQ(reduce_time(question, shape, alone.chain, plan), Seconds(2 * (8 + 1)));
}

// With a sharded optimizer bfloat16 weights travel back instead of gradients: half as much.
TEST(Shape, UpdatedWeightsTravelBackWhereTheOptimizerIsDivided) {
  ShapeQuestion question = equal_ranks(8, 4, 8);
  question.common.platform.default_link = {BytesPerSecond(1), Seconds(1)};
  question.chain_at = [whole = question.chain_at](int size) {
    chain::Chain chain = whole(size);
    for (chain::LayerCost& layer : chain.layers) {
      layer.parameters = Bytes(5);
      layer.frozen = Bytes(3);
    }
    return chain;
  };
  question.common.solver = "joint";
  const Shape shape{.stages = 2, .replicas = 2, .micro_batch = 1, .micro_batches = 4};
  for (const bool shards : {false, true}) {
    question.shard_optimizer = shards;
    const Question alone = question_of(question, shape, question.chain_at(1));
    const plan::Plan plan = std::get<plan::Plan>(partition::plan(alone));
    ASSERT_EQ(plan.stages[0].program.last_layer, 4);
    EXPECT_EQ(plan.optimizer_shards, shards ? 2 : 1);
    EXPECT_EQ(reduce_time(question, shape, alone.chain, plan),
              Seconds((8 + 1) + ((shards ? 4 : 8) + 1)));
  }
}

// Every replica holds a part, as large as what all of them hold together allows; what stages share
// is divided, too.
TEST(Shape, ReplicasHoldAPartOfTheOptimizersStateEach) {
  ShapeQuestion question = equal_ranks(4, 4, 8);
  question.chain_at = [whole = question.chain_at](int size) {
    chain::Chain chain = whole(size);
    for (chain::LayerCost& layer : chain.layers) {
      layer.optimizer = Bytes(1'000'001);
      layer.update = Seconds(8);
    }
    return chain;
  };
  question.common.shared_bytes = [](const LayerRuns& runs) {
    return chain::SharedBytes{.weights = {}, .optimizer = Bytes(runs.empty() ? 0 : 400'003)};
  };
  const Shape shape{.stages = 1, .replicas = 4, .micro_batch = 2, .micro_batches = 1};
  const Question asked = question_of(question, shape, question.chain_at(2));
  EXPECT_EQ(asked.optimizer_shards, 4);
  EXPECT_EQ(asked.chain.layer(1).optimizer, Bytes(250'001) + chain::kShardSlack);
  EXPECT_EQ(asked.chain.layer(1).update, Seconds(2));
  EXPECT_EQ(static_bytes(asked, {{1, 4}}),
            (Bytes(250'001 + 4 + 4) + chain::kShardSlack) * 4 - Bytes(100'000));
  const plan::Plan plan = std::get<plan::Plan>(partition::plan(asked));
  EXPECT_EQ(plan.stages[0].static_bytes, static_bytes(asked, {{1, 4}}));

  question.shard_optimizer = false;
  const Question whole = question_of(question, shape, question.chain_at(2));
  EXPECT_EQ(whole.optimizer_shards, 1);
  EXPECT_EQ(static_bytes(whole, {{1, 4}}), Bytes(1'000'001 + 4 + 4) * 4 - Bytes(400'003));
}

TEST(Shape, WhatIsFixedStaysFixed) {
  ShapeQuestion question = equal_ranks(8, 4, 8);
  question.stages = 4;
  question.micro_batch = 2;

  const ShapeAnswer answer = choose_shape(question);

  ASSERT_EQ(answer.tried.size(), 1U);
  EXPECT_EQ(chosen(answer).shape, (Shape{4, 1, 2, 4}));
  EXPECT_EQ(chosen(answer).plan()->stages.size(), 4U);
}

TEST(Shape, StagesWhereAReplicaDoesNotFit) {
  ShapeQuestion question = equal_ranks(8, 4, 8);
  // Gradients alone are 32 bytes; with two stages 16, and 8 with four.
  for (chain::RankSpec& rank : question.common.platform.ranks) rank.memory = Bytes(28);

  const ShapeAnswer answer = choose_shape(question);

  EXPECT_GT(chosen(answer).shape.stages, 1);
  for (const TriedShape& tried : answer.tried)
    EXPECT_TRUE(tried.shape.stages > 1 || tried.plan() == nullptr);
}

TEST(Shape, TheUsersCutIsKept) {
  ShapeQuestion question = equal_ranks(8, 2, 8);
  question.stages = 2;
  question.common.cut = std::vector<int>{1};

  const ShapeAnswer answer = choose_shape(question);

  EXPECT_EQ(chosen(answer).plan()->stages[0].program.last_layer, 1);
  for (const TriedShape& tried : answer.tried) {
    if (tried.plan() == nullptr) continue;
    EXPECT_EQ(tried.plan()->stages[0].program.last_layer, 1);
  }
  question.common.cut.reset();
  EXPECT_EQ(chosen(choose_shape(question)).plan()->stages[0].program.last_layer, 4)
      << "equal layers are cut evenly where no cut is asked for";
}

TEST(Shape, TheLeanestLacksLeast) {
  ShapeQuestion question = equal_ranks(8, 2, 4);
  for (chain::RankSpec& rank : question.common.platform.ranks) rank.memory = Bytes(1);

  const ShapeAnswer answer = choose_shape(question);

  ASSERT_EQ(answer.chosen, std::nullopt);
  const auto needed = [&](std::size_t i) {
    return std::get<plan::Infeasible>(*answer.tried[i].answer).needed;
  };
  for (std::size_t i = 0; i < answer.tried.size(); ++i)
    EXPECT_LE(needed(leanest(answer)), needed(i));
  EXPECT_THAT(to_text(answer), testing::HasSubstr("does not fit"));
}

TEST(Shape, EveryReplicaCanRunThePlan) {
  ShapeQuestion question = equal_ranks(8, 4, 8);
  question.replicas = 2;
  question.common.platform.ranks[2].speed = 0.5;
  question.common.platform.ranks[3].memory = Bytes(30);

  const Question asked = question_of(question, {2, 2, 1, 4}, question.chain_at(1));

  EXPECT_EQ(asked.platform.ranks[0].speed, 0.5);
  EXPECT_EQ(asked.platform.ranks[1].memory, Bytes(30));
}

// Thirteen layers are too many for an exhaustive search, seven on one of two ranks are not.
TEST(Shape, LeavesOutWhatTheSolverDoesNotTake) {
  ShapeQuestion question = equal_ranks(13, 2, 2);
  question.common.solver = "exhaustive";

  const ShapeAnswer answer = choose_shape(question);

  EXPECT_EQ(chosen(answer).shape.stages, 2);
  EXPECT_THAT(to_text(answer), testing::HasSubstr("exhaustive"));
  question.stages = 1;
  EXPECT_THROW(choose_shape(question), InputError);
  question.stages.reset();
  question.common.solver = "exhaustiv";
  EXPECT_THROW(choose_shape(question), InputError);
}

TEST(Shape, RefusesWhatLeavesNone) {
  ShapeQuestion question = equal_ranks(8, 4, 8);
  question.stages = 3;
  EXPECT_THROW(choose_shape(question), InputError);
  question.stages.reset();
  question.micro_batch = 3;
  EXPECT_THROW(choose_shape(question), InputError);
  question.micro_batch.reset();
  question.ranks = 5;
  EXPECT_THROW(choose_shape(question), InputError);
}

TEST(Shape, ScalingLeavesParametersAlone) {
  chain::Chain chain = solve::without_loss(solve::homogeneous(2));
  chain.layers[0].parameters = Bytes(100);

  const chain::Chain scaled = scaled_chain(chain, 2, 6);

  EXPECT_EQ(scaled.layers[0].parameters, Bytes(100));
  EXPECT_EQ(scaled.layers[0].tape, 3 * chain.layers[0].tape);
  EXPECT_EQ(scaled.input, 3 * chain.input);
  EXPECT_EQ(scaled.layers[1].backward, Seconds(6));
}

/// Costs with a fixed part and one for each example.
SizedChain affine(int size) {
  chain::Chain chain = solve::without_loss(solve::homogeneous(2));
  chain.input = Bytes(8 * size);
  for (chain::LayerCost& layer : chain.layers) {
    layer.forward = Seconds(0.5 + size);
    layer.update = Seconds(3);
    layer.tape = Bytes(100 + 7 * size);
    layer.parameters = Bytes(1000 + size);
  }
  return {size, chain};
}

TEST(Shape, TwoMeasurementsGiveEverySizeOfAffineCosts) {
  for (const int size : {1, 2, 5, 8, 13})
    EXPECT_EQ(chain_between(affine(2), affine(8), size), affine(size).chain) << size;
}

TEST(Shape, AnEstimateIsNeverBelowNothing) {
  SizedChain slower = affine(2);
  slower.chain.layers[0].forward = Seconds(100);

  EXPECT_EQ(chain_between(slower, affine(4), 16).layers[0].forward, Seconds(0));
}

// A tape of 3 and a retape of 2 with a transient of 1 more need the same peak; rounded up one by
// one at a third of the size, 1 and 1 + 1 would not.
TEST(Shape, ARetapeNeverNeedsMoreThanAWholeTapeAtAnySize) {
  chain::Chain chain = solve::without_loss(solve::homogeneous(3));
  for (chain::LayerCost& layer : chain.layers) {
    layer.retape = layer.again();
    layer.retape->tape -= Bytes(1);
    layer.retape->tape_transient += Bytes(1);
    layer.retape->backward_transient += Bytes(1);
  }
  for (int size = 1; size <= 9; ++size) {
    for (const chain::Chain& other :
         {scaled_chain(chain, 3, size), chain_between({3, chain}, {4, chain}, size),
          chain_between({3, chain}, {6, scaled_chain(chain, 3, 6)}, size)}) {
      const chain::LayerCost& layer = other.layer(2);
      EXPECT_EQ(layer.retape, chain::capped(*layer.retape, layer)) << size;
    }
  }
}

}  // namespace
}  // namespace trireme::partition
