// SPDX-License-Identifier: Apache-2.0
#include "trireme/plan/plan.h"

#include "plan/small_plan.h"
#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/io/file.h"
#include "trireme/program/generate.h"
#include "trireme/schedule/named.h"
#include "trireme/schedule/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

namespace trireme::plan {
namespace {

using program::Action;
using program::Op;

TEST(ToJson, IsReadableByHand) {
  EXPECT_EQ(to_json(small_plan()),
            "{\"format\": \"trireme-plan/1\",\n"
            " \"chain\": {\"name\": \"c\", \"digest\": \"0123456789abcdef0123456789abcdef\"},\n"
            " \"schedule\": \"1f1b\",\n"
            " \"solver\": \"rotor\",\n"
            " \"micro_batches\": 2,\n"
            " \"predicted\": {\"step_s\": 1.25, \"bubble\": 0.2, \"recompute_s\": 0.5},\n"
            " \"stages\": [\n"
            "  {\"layers\": [1, 2], \"rank\": 1, \"budget_bytes\": 100, "
            "\"static_bytes\": 7,\n"
            "   \"forward\": [[\"forward_keep\", 1], [\"offload\", 0], [\"forward_tape\", 2], "
            "[\"offload_tape\", 2], [\"drop\", 1]],\n"
            "   \"backward\": [[\"prefetch\", 0], [\"forward\", 1], [\"prefetch_tape\", 2], "
            "[\"backward\", 2], [\"forward_tape\", 1], [\"backward\", 1]],\n"
            "   \"predicted\": {\"forward_s\": 0.1, \"backward_s\": 0.3333333333333333, "
            "\"kept_bytes\": 5, \"peak_bytes\": 99, \"offloaded_bytes\": 11}},\n"
            "  {\"layers\": [3, 4], \"rank\": 0, \"budget_bytes\": 0, "
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

TEST(ToJson, OfAdviceSaysHowManyBytes) {
  using Kind = Advice::Kind;
  const Infeasible infeasible{
      .needed = Bytes(5),
      .available = Bytes(4),
      .least_budget = Bytes(5),
      .where = "x",
      .advice = {{Kind::kMemoryOfOneRank, "1 B more on rank 0", Bytes(1)},
                 {Kind::kStages, "3 stages"},
                 {Kind::kHostMemory, "9 B (9 bytes) of host memory for activations", Bytes(9)}}};
  const std::string json = to_json(infeasible);
  EXPECT_THAT(json,
              testing::HasSubstr("\"advice\": [{\"kind\": \"memory_of_one_rank\", \"bytes\": 1, "
                                 "\"change\": \"1 B more on rank 0\"}, "));
  EXPECT_EQ(read_infeasible(io::parse(json, "i.json").find("infeasible").value()), infeasible);
  EXPECT_EQ(where_and_advice(infeasible),
            "x; it would fit with 1 B more on rank 0, or with 3 stages, or with 9 B (9 bytes) of "
            "host memory for activations");
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

/// Gives stage k, one on each rank, these numbers in flight and of deferred passes.
void set_passes(Plan& plan, const std::vector<int>& in_flight,
                const std::vector<std::optional<int>>& deferred = {}) {
  set_order(plan,
            schedule::on_ranks(schedule::one_f_one_b_with(in_flight, plan.micro_batches, deferred),
                               placement(plan)));
}

TEST(ReadPlan, GivesBackTheOrderOfPasses) {
  Plan plan = small_plan();
  set_passes(plan, {2, 1}, {std::nullopt, 0});
  EXPECT_TRUE(has_split_backward(plan));
  EXPECT_FALSE(has_split_backward(small_plan()));
  EXPECT_EQ(deferred_passes(plan), (std::vector<std::optional<int>>{std::nullopt, 0}));
  const std::string text = to_json(plan);
  EXPECT_NE(text.find(R"("order": [
  "(F1 I1 W1)*2",
  "F0*2 B0*2"
 ])"),
            std::string::npos)
      << text;
  EXPECT_EQ(read_plan(io::parse(text, "p.json")), plan);
}

TEST(SetOrder, LeavesThePlansScheduleItsOwnOrder) {
  Plan plan = small_plan();
  set_passes(plan, {2, 1});
  EXPECT_EQ(plan, small_plan());
  set_passes(plan, {1, 1});
  EXPECT_EQ(in_flight(plan), (std::vector<int>{1, 1}));
  EXPECT_NE(plan.order, schedule::Order());
}

TEST(ReadPlan, GivesBackClocksAndEnergy) {
  Plan plan = small_plan();
  EXPECT_EQ(to_json(plan).find("clock"), std::string::npos);
  EXPECT_EQ(to_json(plan).find("energy"), std::string::npos);
  plan.energy = Joules(2.5);
  plan.stages[0].backward_clock = "1200 \"MHz\"";
  plan.stages[1].forward_clock = "slow";
  EXPECT_TRUE(has_clocks(plan.stages[0]));
  EXPECT_FALSE(has_clocks(small_plan().stages[0]));
  EXPECT_TRUE(names_clocks(plan));
  EXPECT_FALSE(names_clocks(at_usual_clocks(plan)));
  EXPECT_EQ(read_plan(io::parse(to_json(plan), "p.json")), plan);
}

TEST(ReadInfeasible, GivesBackTheLeastStepOfADeadline) {
  const Infeasible late{.reason = Infeasible::Reason::kDeadline,
                        .least_step = Seconds(2.5),
                        .last_layer = 4,
                        .needed = Bytes(3),
                        .available = Bytes(2),
                        .least_budget = Bytes(5)};
  const io::Node document = io::parse(to_json(late), "p.json");
  EXPECT_EQ(read_infeasible(*document.find("infeasible")), late);
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
    const std::array budgets{size(), size(), size(), size()};
    int next = 1;
    for (std::size_t k = 1 + random() % 4; k > 0; --k) {
      const std::size_t rank = random() % budgets.size();
      StagePlan stage{static_cast<int>(rank),
                      budgets[rank],
                      size(),
                      {},
                      {time(), time(), size(), size(), size()}};
      if (random() % 2 == 0) stage.offloaded_optimizer = size();
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
  plan.stages = {StagePlan{.program = program::keep_all(1, 30'000)}};
  io::write_file(folder / "plan", to_json(plan));
  EXPECT_EQ(load_plan(folder / "plan"), plan);
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

// The passes of a rank, forwards and backwards of its layer: "F0 F1 B0 B1".
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
  EXPECT_EQ(in_flight(plan), (std::vector<int>{2, 1}));
  set_passes(plan, {1, 1});

  const program::Program one = compile(plan);

  EXPECT_EQ(passes(one, 1), " F0 B0 F1 B1");
  EXPECT_EQ(passes(one, 0), " F0 B0 F1 B1");
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

TEST(Compile, SplitsTheBackwardsOfTheStagesThatSaySo) {
  Plan plan = small_plan();
  set_passes(plan, {2, 1}, {std::nullopt, 1});
  const program::Program program = compile(plan);
  const auto count = [&](int rank, Op op) {
    const auto& actions = program.ranks[static_cast<std::size_t>(rank)];
    return std::count_if(actions.begin(), actions.end(),
                         [&](const Action& action) { return action.op == op; });
  };
  EXPECT_EQ(count(1, Op::kBackward), 4);
  EXPECT_EQ(count(0, Op::kBackward), 0);
  EXPECT_EQ(count(0, Op::kBackwardInput), 4);
  EXPECT_EQ(count(0, Op::kBackwardWeights), 4);
}

TEST(Compile, RefusesTwoPartsOfBackwardsWhereTheyCannotBe) {
  Plan plan = small_plan();
  set_passes(plan, {2, 1}, {std::nullopt, 1});
  const auto refusal = [](const Plan& other) {
    return support::input_error([&] { compile_passes(other); });
  };
  Plan grouped = plan;
  grouped.group = 2;
  EXPECT_EQ(refusal(grouped),
            "order: stage 1 has backwards in two parts (I1, W1), but micro-batches run in groups: "
            "whole ones (B1) are possible");
  Plan updated = plan;
  updated.stages[1].streamed = {3, 4};
  EXPECT_NO_THROW(compile_passes(updated));
  updated.updates = program::UpdatePlace::kInForward;
  EXPECT_EQ(refusal(updated),
            "order: stage 1 has backwards in two parts (I1, W1), but layers are updated during its "
            "passes: whole ones (B1) are possible");
}

TEST(CompileForwards, RunsNothingElseOnTheSameRanks) {
  const program::Program forwards = compile_forwards(two_stages("1f1b"), 3);

  EXPECT_EQ(forwards.rank_of_layer, (std::vector<int>{1, 1, 0}));
  EXPECT_EQ(passes(forwards, 1), " F0 F1 F2");
  EXPECT_EQ(passes(forwards, 0), " F0 F1 F2");
}

}  // namespace
}  // namespace trireme::plan
