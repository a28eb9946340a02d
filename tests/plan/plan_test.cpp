// SPDX-License-Identifier: Apache-2.0
#include "trireme/plan/plan.h"

#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/io/file.h"
#include "trireme/program/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace trireme::plan {
namespace {

using program::Action;
using program::Op;

/// Two stages of two layers, one of them with every kind of action.
Plan small_plan() {
  Plan plan;
  plan.chain_name = "c";
  plan.chain_digest = "0123456789abcdef0123456789abcdef";
  plan.solver = "rotor";
  plan.micro_batches = 2;
  plan.step = Seconds(1.25);
  plan.bubble = 0.2;
  plan.recompute = Seconds(0.5);
  StagePlan first{.rank = 1, .in_flight = 2, .budget = Bytes(100), .static_bytes = Bytes(7)};
  first.program = {.first_layer = 1,
                   .last_layer = 2,
                   .forward = {{Op::kForwardKeep, 1},
                               {Op::kOffload, 0},
                               {Op::kForwardTape, 2},
                               {Op::kOffloadTape, 2},
                               {Op::kDrop, 1}},
                   .backward = {{Op::kPrefetch, 0},
                                {Op::kForward, 1},
                                {Op::kPrefetchTape, 2},
                                {Op::kBackward, 2},
                                {Op::kForwardTape, 1},
                                {Op::kBackward, 1}}};
  first.predicted = {Seconds(0.1), Seconds(1.0 / 3), Bytes(5), Bytes(99), Bytes(11)};
  StagePlan second{.in_flight = 1};
  second.program = program::keep_all(3, 4);
  plan.stages = {first, second};
  plan.alternatives = {{.policy = "recompute_all", .step = Seconds(1.5), .infeasible = {}},
                       {.policy = "keep_all",
                        .step = {},
                        .infeasible = Infeasible{.rank = 1,
                                                 .first_layer = 1,
                                                 .last_layer = 2,
                                                 .needed = Bytes(120),
                                                 .available = Bytes(100),
                                                 .least_budget = Bytes(110),
                                                 .where = "layer 2 (\"b\"): its backward alone"}}};
  return plan;
}

TEST(ToJson, IsReadableByHand) {
  EXPECT_EQ(to_json(small_plan()),
            "{\"format\": \"trireme-plan/1\",\n"
            " \"chain\": {\"name\": \"c\", \"digest\": \"0123456789abcdef0123456789abcdef\"},\n"
            " \"schedule\": \"1f1b\",\n"
            " \"solver\": \"rotor\",\n"
            " \"micro_batches\": 2,\n"
            " \"predicted\": {\"step_s\": 1.25, \"bubble\": 0.2, \"recompute_s\": 0.5},\n"
            " \"stages\": [\n"
            "  {\"layers\": [1, 2], \"rank\": 1, \"in_flight\": 2, \"budget_bytes\": 100, "
            "\"static_bytes\": 7,\n"
            "   \"forward\": [[\"forward_keep\", 1], [\"offload\", 0], [\"forward_tape\", 2], "
            "[\"offload_tape\", 2], [\"drop\", 1]],\n"
            "   \"backward\": [[\"prefetch\", 0], [\"forward\", 1], [\"prefetch_tape\", 2], "
            "[\"backward\", 2], [\"forward_tape\", 1], [\"backward\", 1]],\n"
            "   \"predicted\": {\"forward_s\": 0.1, \"backward_s\": 0.3333333333333333, "
            "\"kept_bytes\": 5, \"peak_bytes\": 99, \"offloaded_bytes\": 11}},\n"
            "  {\"layers\": [3, 4], \"rank\": 0, \"in_flight\": 1, \"budget_bytes\": 0, "
            "\"static_bytes\": 0,\n"
            "   \"forward\": [[\"forward_tape\", 3], [\"forward_tape\", 4]],\n"
            "   \"backward\": [[\"backward\", 4], [\"backward\", 3]],\n"
            "   \"predicted\": {\"forward_s\": 0, \"backward_s\": 0, \"kept_bytes\": 0, "
            "\"peak_bytes\": 0, \"offloaded_bytes\": 0}}\n"
            " ],\n"
            " \"alternatives\": [\n"
            "  {\"policy\": \"recompute_all\", \"step_s\": 1.5},\n"
            "  {\"policy\": \"keep_all\", \"infeasible\": {\"rank\": 1, \"layers\": [1, 2], "
            "\"needed_bytes\": 120, \"available_bytes\": 100, \"least_budget_bytes\": 110, "
            "\"where\": \"layer 2 (\\\"b\\\"): its backward alone\"}}\n"
            " ]}\n");
}

TEST(ToJson, OfAnInfeasibleJobIsADocumentOfItsOwn) {
  const Infeasible infeasible{.rank = 0,
                              .first_layer = 1,
                              .last_layer = 9,
                              .needed = Bytes(5),
                              .available = Bytes(4),
                              .least_budget = Bytes(5),
                              .where = "x"};
  EXPECT_EQ(to_json(infeasible),
            "{\"infeasible\": {\"rank\": 0, \"layers\": [1, 9], \"needed_bytes\": 5, "
            "\"available_bytes\": 4, \"least_budget_bytes\": 5, \"where\": \"x\"}}\n");
}

TEST(ReadPlan, GivesBackWhatWasWritten) {
  Plan plan = small_plan();
  plan.weights_at_once = static_cast<int>(2 + random() % 3);
  plan.group = static_cast<int>(1 + random() % 2);
  plan.replicas = static_cast<int>(1 + random() % 3);
  plan.optimizer_shards = static_cast<int>(1 + random() % 2);
  EXPECT_EQ(read_plan(io::parse(to_json(plan), "p.json")), plan);
  plan.lean_tapes = true;
  EXPECT_EQ(read_plan(io::parse(to_json(plan), "p.json")), plan);
  for (const program::UpdatePlace place :
       {program::UpdatePlace::kInForward, program::UpdatePlace::kInBackward}) {
    plan.updates = place;
    plan.update_window = Bytes(random() % 1000);
    EXPECT_EQ(read_plan(io::parse(to_json(plan), "p.json")), plan);
  }
}

TEST(ReadPlan, GivesBackEmptyListsAndNames) {
  Plan plan = small_plan();
  plan.chain_name = plan.solver = "";
  plan.schedule = "gpipe";
  plan.stages[1].in_flight = 2;
  plan.alternatives.clear();
  plan.stages[1].program.backward.clear();
  EXPECT_EQ(read_plan(io::parse(to_json(plan), "p.json")), plan);
}

TEST(ReadPlan, GivesBackMixes) {
  Plan plan = small_plan();
  plan.stages[1].mix = {.others = {program::recompute_all(3, 4)}, .cycle = {0, 1, 1}};

  const std::string text = to_json(plan);

  EXPECT_NE(text.find("\"cycle\": [0, 1, 1]"), std::string::npos) << text;
  EXPECT_TRUE(has_mixes(plan));
  EXPECT_FALSE(has_mixes(small_plan()));
  EXPECT_EQ(read_plan(io::parse(text, "p.json")), plan);
}

TEST(ReadPlan, GivesBackTurns) {
  Plan plan = small_plan();
  plan.stages[0].rank = 0;
  plan.stages[1].rank = 1;
  plan.stages.push_back({.rank = 0, .in_flight = 1, .program = program::keep_all(5, 6)});
  plan.turns = {{0, 0, 2, 2, 2, 2, 0, 0}, {}};

  const std::string text = to_json(plan);

  EXPECT_NE(text.find(R"( "turns": [
  {"rank": 0, "stages": [0, 0, 2, 2, 2, 2, 0, 0]}
 ],)"),
            std::string::npos)
      << text;
  EXPECT_EQ(read_plan(io::parse(text, "p.json")), plan);
}

TEST(ReadPlan, GivesBackRandomPlans) {
  std::mt19937_64 random(3);
  const auto size = [&] {
    return Bytes(static_cast<std::int64_t>(random() >> (5 + random() % 57)));
  };
  const auto time = [&] { return Seconds(static_cast<double>(random()) * 0x1p-60); };
  const std::vector<Op> ops{Op::kForward, Op::kForwardKeep, Op::kForwardTape, Op::kBackward,
                            Op::kDrop,    Op::kOffload,     Op::kPrefetch};
  for (int i = 0; i < 200; ++i) {
    Plan plan = small_plan();
    plan.micro_batches = static_cast<int>(1 + random() % 50);
    plan.step = time();
    plan.stages.clear();
    int next = 1;
    for (std::size_t k = 1 + random() % 4; k > 0; --k) {
      StagePlan stage{static_cast<int>(random() % 4),
                      static_cast<int>(1 + random() % 4),
                      size(),
                      size(),
                      {},
                      {time(), time(), size(), size(), size()}};
      if (random() % 2 == 0) stage.optimizer_away = size();
      stage.program.first_layer = next;
      stage.program.last_layer = next + static_cast<int>(random() % 5);
      next = stage.program.last_layer + 1;
      for (int layer = stage.program.first_layer; layer < next; ++layer)
        if (random() % 3 == 0) stage.streamed.push_back(layer);
      for (std::size_t a = random() % 30; a > 0; --a) {
        const auto length = static_cast<std::size_t>(next - stage.program.first_layer);
        const Action action{ops[random() % ops.size()],
                            stage.program.first_layer + static_cast<int>(random() % length)};
        (a % 2 == 0 ? stage.program.forward : stage.program.backward).push_back(action);
      }
      plan.stages.push_back(stage);
    }
    EXPECT_EQ(read_plan(io::parse(to_json(plan), "p.json")), plan) << to_json(plan);
  }
}

TEST(LoadPlan, ReadsWhatWasSaved) {
  const support::TemporaryFolder folder;
  io::write_file(folder / "plan.json", to_json(small_plan()));
  EXPECT_EQ(load_plan(folder / "plan.json"), small_plan());
}

TEST(LoadPlan, ReadsAPlanOfManyActionsFromAnyFile) {
  const support::TemporaryFolder folder;
  Plan plan = small_plan();
  plan.stages = {StagePlan{.in_flight = 1, .program = program::keep_all(1, 30'000)}};
  io::write_file(folder / "plan", to_json(plan));
  EXPECT_EQ(load_plan(folder / "plan"), plan);
}

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

TEST(RequireState, RefusesMoreOfItAwayThanLayersHave) {
  chain::Chain chain = chain_of(4);
  for (chain::LayerCost& layer : chain.layers) layer.optimizer = Bytes(10);
  Plan plan = small_plan();
  StagePlan& stage = plan.stages.back();
  const int layers = stage.program.last_layer - stage.program.first_layer + 1;
  stage.optimizer_away = Bytes(10 * layers);
  EXPECT_NO_THROW(require_state(plan, chain));
  stage.optimizer_away += Bytes(1);
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
            (std::vector<chain::OuterWeights>{
                {}, {}, {}, {.weights = Bytes(10), .gradients = {}, .is_trained = false}, {}}));
  EXPECT_EQ(streamed_weights(plan, chain, plan.stages.back().rank), Bytes(10));
  chain.layers[2].frozen = Bytes(0);
  chain.layers[2].trained = Bytes(10);
  chain.layers[2].trained_gradients = Bytes(20);
  EXPECT_NO_THROW(require_state(plan, chain));
  EXPECT_EQ(streamed_weights(plan, chain, plan.stages.back().rank), Bytes(30));
  chain.layers[2].trained = chain.layers[2].trained_gradients = Bytes(0);
  EXPECT_THAT(
      support::input_error([&] { require_state(plan, chain); }),
      testing::HasSubstr("streamed: found layer 3 (third), of which nothing may leave the device"));
}

/// Four layers on one rank, all of them streamed and trained, updated behind backwards.
struct Updated {
  Updated() {
    for (chain::LayerCost& layer : chain.layers) {
      layer.parameters = layer.trained = Bytes(10);
      layer.gradients = layer.trained_gradients = layer.optimizer = Bytes(20);
    }
    plan.micro_batches = 2;
    plan.stages = {{.rank = 0, .in_flight = 1, .program = program::keep_all(1, 4)}};
    plan.stages[0].streamed = {1, 2, 3, 4};
    plan.stages[0].optimizer_away = Bytes(40);
    plan.updates = program::UpdatePlace::kInBackward;
    plan.update_window = Bytes(12);
  }
  std::string refusal() const {
    return support::input_error([&] { require_state(plan, chain); });
  }

  chain::Chain chain = chain_of(4);
  Plan plan;
};

TEST(UpdatesOfAPlan, AreOfTheStreamedLayers) {
  Updated of;
  EXPECT_NO_THROW(require_state(of.plan, of.chain));
  EXPECT_EQ(updated_layers(of.plan), (std::vector<std::vector<int>>{{1, 2, 3, 4}}));
  EXPECT_EQ(update_windows(of.plan), std::vector<Bytes>{Bytes(12)});
  const auto updates = [&] {
    const program::Program program = compile(of.plan);
    return std::count_if(
        program.ranks[0].begin(), program.ranks[0].end(),
        [](const program::Action& action) { return action.op == program::Op::kUpdate; });
  };
  EXPECT_EQ(updates(), 4);
  of.plan.updates = program::UpdatePlace::kInForward;
  EXPECT_EQ(updates(), 2);
  of.plan.stages[0].optimizer_away = Bytes(0);
  EXPECT_EQ(update_windows(of.plan), std::vector<Bytes>{Bytes(0)});
  of.plan.updates = program::UpdatePlace::kAtEnd;
  EXPECT_EQ(updates(), 0);
}

TEST(UpdatesOfAPlan, AreRefusedWhereTheyCannotBe) {
  Updated of;
  of.plan.replicas = 2;
  EXPECT_EQ(of.refusal(),
            "updates: found 'in_backward', but 2 replicas add their gradients up when all are "
            "there; use 'at_end'");
  of.plan.replicas = 1;
  of.chain.layers[1].frozen = std::exchange(of.chain.layers[1].trained, Bytes(0));
  of.chain.layers[1].name = "second";
  EXPECT_EQ(of.refusal(),
            "updates: found 'in_backward', but streamed layer 2 (second) is frozen; use 'at_end'");
}

TEST(UpdatesOfAPlan, AreAtTheEndOnRanksWithSeveralStages) {
  Updated of;
  of.plan.stages = {{.rank = 0, .in_flight = 1, .program = program::keep_all(1, 1)},
                    {.rank = 1, .in_flight = 1, .program = program::keep_all(2, 3)},
                    {.rank = 0, .in_flight = 1, .program = program::keep_all(4, 4)}};
  of.plan.stages[0].streamed = {1};
  of.plan.stages[1].streamed = {2, 3};
  of.plan.stages[2].streamed = {4};
  of.plan.weights_at_once = 1;
  EXPECT_NO_THROW(require_state(of.plan, of.chain));
  EXPECT_EQ(updated_layers(of.plan), (std::vector<std::vector<int>>{{}, {2, 3}}));
}

/// One layer per stage, everything kept.
Plan two_stages(const std::string& schedule) {
  Plan plan;
  plan.schedule = schedule;
  plan.micro_batches = 2;
  plan.stages = {StagePlan{.rank = 1, .program = program::keep_all(1, 1)},
                 StagePlan{.rank = 0, .program = program::keep_all(2, 2)}};
  return plan;
}

// The passes of a rank: forwards and backwards of its layer, e.g. "F0 F1 B0 B1".
std::string passes(const program::Program& program, std::size_t rank) {
  std::string text;
  for (const Action& action : program.ranks[rank]) {
    if (action.op == Op::kForwardTape || action.op == Op::kForward)
      text += " F" + std::to_string(action.micro_batch);
    if (action.op == Op::kBackward) text += " B" + std::to_string(action.micro_batch);
  }
  return text;
}

TEST(Compile, RunsAsManyInFlightAsThePlanSays) {
  Plan plan = two_stages("1f1b");
  EXPECT_EQ(in_flight(plan, 0), 2);
  plan.stages[0].in_flight = 1;

  const program::Program one = compile(plan);

  EXPECT_EQ(passes(one, 1), " F0 B0 F1 B1");
  EXPECT_EQ(passes(one, 0), " F0 B0 F1 B1");
  plan.stages[1].in_flight = 2;
  EXPECT_EQ(support::input_error([&] { compile(plan); }),
            "stage 0 has 1 micro-batches in flight, must have at least 2, as many as the stage "
            "after it");
}

TEST(Compile, RunsEveryStageOnItsRankInTheOrderOfTheSchedule) {
  const program::Program one_f_one_b = compile(two_stages("1f1b"));
  const program::Program gpipe = compile(two_stages("gpipe"));

  EXPECT_EQ(one_f_one_b.rank_of_layer, (std::vector<int>{1, 1, 0}));
  EXPECT_EQ(one_f_one_b.micro_batches, 2);
  EXPECT_EQ(passes(one_f_one_b, 1), " F0 F1 B0 B1");
  EXPECT_EQ(passes(one_f_one_b, 0), " F0 B0 F1 B1");
  EXPECT_EQ(passes(gpipe, 0), " F0 F1 B0 B1");
}

TEST(CompileForwards, RunsNothingElseOnTheSameRanks) {
  const program::Program forwards = compile_forwards(two_stages("1f1b"), 3);

  EXPECT_EQ(forwards.rank_of_layer, (std::vector<int>{1, 1, 0}));
  EXPECT_EQ(passes(forwards, 1), " F0 F1 F2");
  EXPECT_EQ(passes(forwards, 0), " F0 F1 F2");
}

}  // namespace
}  // namespace trireme::plan
