// How a plan refers to its chain, and when the chain is another one.
// SPDX-License-Identifier: Apache-2.0
#include "plan/small_plan.h"
#include "support/input_error.h"

#include "trireme/plan/plan.h"
#include "trireme/program/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace trireme::plan {
namespace {

chain::Chain chain_of(int layers) {
  chain::Chain chain{.name = "mine", .input = Bytes(1), .layers = {}};
  chain.layers.resize(static_cast<std::size_t>(layers), {.name = "x", .output = Bytes(2)});
  return chain;
}

TEST(RequireSameChain, AcceptsTheChainOfThePlan) {
  Plan plan = small_plan();
  plan.chain_digest = chain::digest(chain_of(4));
  EXPECT_NO_THROW(require_same_chain(plan, chain_of(4)));
}

TEST(RequireSameChain, NamesBothChains) {
  const chain::Chain other = chain_of(5);
  EXPECT_EQ(
      support::input_error([&] { require_same_chain(small_plan(), other); }),
      "the plan was made for chain 'c' (digest 0123456789abcdef0123456789abcdef), but this is "
      "chain 'mine' (digest " +
          chain::digest(other) + "): plan again for this chain, or give the plan's own");
}

TEST(RequireSameChain, RefusesStagesThatDoNotCoverTheChain) {
  Plan plan = small_plan();
  plan.chain_digest = chain::digest(chain_of(5));
  EXPECT_EQ(
      support::input_error([&] { require_same_chain(plan, chain_of(5)); }),
      "the plan ends with layer 4, but chain 'mine' has 5 layers: its stages must cover all of "
      "them");
}

TEST(RequireState, RefusesMoreOfItOffloadedThanLayersHave) {
  chain::Chain chain = chain_of(4);
  for (chain::LayerCost& layer : chain.layers) layer.optimizer = Bytes(10);
  Plan plan = small_plan();
  StagePlan& stage = plan.stages.back();
  const int layers = stage.program.last_layer - stage.program.first_layer + 1;
  stage.offloaded_optimizer = Bytes(10 * layers);
  EXPECT_NO_THROW(require_state(plan, chain));
  stage.offloaded_optimizer += Bytes(1);
  EXPECT_THAT(support::input_error([&] { require_state(plan, chain); }),
              testing::HasSubstr("optimizer_away_bytes: found " + std::to_string(10 * layers + 1)));
}

TEST(RequireState, StreamsWhatMayLeaveAlone) {
  chain::Chain chain = chain_of(4);
  chain.layers[2].parameters = chain.layers[2].frozen = Bytes(10);
  chain.layers[2].name = "third";
  Plan plan = small_plan();
  plan.stages.back().streamed = {3};
  EXPECT_NO_THROW(require_state(plan, chain));
  EXPECT_EQ(streamed_weights(plan, chain),
            (std::vector<chain::OffloadWeights>{
                {}, {}, {}, {.weights = Bytes(10), .gradients = {}, .is_trained = false}, {}}));
  EXPECT_EQ(streamed_weights(plan, chain, plan.stages.back().rank), Bytes(10));
  chain.layers[2].frozen = Bytes(0);
  chain.layers[2].trained = Bytes(10);
  chain.layers[2].trained_gradients = Bytes(20);
  EXPECT_NO_THROW(require_state(plan, chain));
  EXPECT_EQ(streamed_weights(plan, chain, plan.stages.back().rank), Bytes(30));
  chain.layers[2].trained = chain.layers[2].trained_gradients = Bytes(0);
  EXPECT_THAT(support::input_error([&] { require_state(plan, chain); }),
              testing::HasSubstr(
                  "streamed: found layer 3 (third), which has no weights that can be streamed"));
}

/// Four layers on one rank, all streamed and trained, updated after their backwards.
struct Updated {
  Updated() {
    for (chain::LayerCost& layer : chain.layers) {
      layer.parameters = layer.trained = Bytes(10);
      layer.gradients = layer.trained_gradients = layer.optimizer = Bytes(20);
    }
    plan.micro_batches = 2;
    plan.stages = {{.rank = 0, .program = program::keep_all(1, 4)}};
    plan.stages[0].streamed = {1, 2, 3, 4};
    plan.stages[0].offloaded_optimizer = Bytes(40);
    plan.updates = program::UpdatePlace::kInBackward;
    plan.update_window = Bytes(12);
  }
  std::string refusal() const {
    return support::input_error([&] { require_state(plan, chain); });
  }

  chain::Chain chain = chain_of(4);
  Plan plan;
};

TEST(Compile, NeedsTheBytesOfWeightsThatAreStreamed) {
  const Updated of;
  EXPECT_THROW(compile(of.plan), LogicError);
  const program::Program program = compile(of.plan, of.chain);
  const auto copies = std::count_if(
      program.ranks[0].begin(), program.ranks[0].end(),
      [](const program::Action& action) { return action.op == program::Op::kWeightsIn; });
  EXPECT_GE(copies, of.chain.length());
}

TEST(UpdatesOfAPlan, AreOfTheStreamedLayers) {
  Updated of;
  EXPECT_NO_THROW(require_state(of.plan, of.chain));
  EXPECT_EQ(updated_layers(of.plan), (std::vector<std::vector<int>>{{1, 2, 3, 4}}));
  EXPECT_EQ(update_windows(of.plan), std::vector<Bytes>{Bytes(12)});
  const auto updates = [&] {
    const program::Program program = compile_passes(of.plan);
    return std::count_if(
        program.ranks[0].begin(), program.ranks[0].end(),
        [](const program::Action& action) { return action.op == program::Op::kUpdate; });
  };
  EXPECT_EQ(updates(), 4);
  of.plan.updates = program::UpdatePlace::kInForward;
  EXPECT_EQ(updates(), 2);
  of.plan.stages[0].offloaded_optimizer = Bytes(0);
  EXPECT_EQ(update_windows(of.plan), std::vector<Bytes>{Bytes(0)});
  of.plan.updates = program::UpdatePlace::kAtEnd;
  EXPECT_EQ(updates(), 0);
}

TEST(UpdatesOfAPlan, AreRefusedWhereTheyCannotBe) {
  Updated of;
  of.plan.replicas = 2;
  EXPECT_EQ(of.refusal(),
            "updates: found 'in_backward', but 2 replicas reduce their gradients after the "
            "last backward; use 'at_end'");
  of.plan.replicas = 1;
  of.chain.layers[1].frozen = std::exchange(of.chain.layers[1].trained, Bytes(0));
  of.chain.layers[1].name = "second";
  EXPECT_EQ(of.refusal(),
            "updates: found 'in_backward', but streamed layer 2 (second) is frozen; use 'at_end'");
}

TEST(UpdatesOfAPlan, AreAtTheEndOnRanksWithSeveralStages) {
  Updated of;
  of.plan.stages = {{.rank = 0, .program = program::keep_all(1, 1)},
                    {.rank = 1, .program = program::keep_all(2, 3)},
                    {.rank = 0, .program = program::keep_all(4, 4)}};
  of.plan.stages[0].streamed = {1};
  of.plan.stages[1].streamed = {2, 3};
  of.plan.stages[2].streamed = {4};
  of.plan.weights_at_once = 1;
  EXPECT_NO_THROW(require_state(of.plan, of.chain));
  EXPECT_EQ(updated_layers(of.plan), (std::vector<std::vector<int>>{{}, {2, 3}}));
  of.plan.stages[1].rank = 0;
  EXPECT_EQ(of.refusal(),
            "updates: found 'in_backward', but every rank has several chunks, whose layers are "
            "updated at the end of a step; use 'at_end'");
}

}  // namespace
}  // namespace trireme::plan
