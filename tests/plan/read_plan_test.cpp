// Malformed plans: every fault with its line, stage and field.
// SPDX-License-Identifier: Apache-2.0
#include "support/input_error.h"

#include "trireme/core/text.h"
#include "trireme/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trireme::plan {
namespace {

const std::string kOps =
    "must be one of forward, forward_keep, forward_tape, retape, backward, drop, offload, "
    "prefetch, "
    "offload_tape, prefetch_tape";

/// A plan whose line 4 lists the stages.
std::string with_stages(const std::string& stages) {
  return "{\"format\": \"trireme-plan/1\", \"chain\": {\"name\": \"c\", \"digest\": \"d\"},\n"
         " \"schedule\": \"1f1b\", \"micro_batches\": 3,\n"
         " \"stages\": [\n" +
         stages + "\n]}";
}

/// A stage with these lists.
std::string stage(const std::string& layers, const std::string& forward = "",
                  const std::string& backward = "") {
  return "{\"layers\": [" + layers + "], \"forward\": [" + forward + "], \"backward\": [" +
         backward + "]}";
}

Plan read(const std::string& text) {
  return read_plan(io::parse(text, "p.json"));
}

std::string refusal(const std::string& text) {
  return support::input_error([&] { read(text); });
}

struct Broken {
  std::string text;
  std::string message;
};

void expect_refusals_of_stages(const std::vector<Broken>& table) {
  for (const auto& [text, message] : table)
    EXPECT_EQ(refusal(with_stages(text)), "p.json:4: " + message);
}

TEST(ReadPlan, FillsInWhatAHandWrittenPlanLeavesOut) {
  const Plan plan = read(with_stages(stage("1, 2") + ", " + stage("3, 3")));

  EXPECT_EQ(plan.solver, "");
  EXPECT_EQ(plan.step, Seconds(0));
  ASSERT_EQ(plan.stages.size(), 2U);
  EXPECT_EQ(plan.stages[0].rank, 0);
  EXPECT_EQ(plan.stages[1].rank, 1);
  EXPECT_EQ(in_flight(plan), (std::vector<int>{2, 1}));
  EXPECT_EQ(plan.stages[0].budget, Bytes(0));
}

TEST(ReadPlan, KeepsAllMicroBatchesInFlightInGpipe) {
  std::string text = with_stages(stage("1, 2") + ", " + stage("3, 3"));
  text.replace(text.find("1f1b"), 4, "gpipe");
  EXPECT_EQ(in_flight(read(text)), (std::vector<int>{3, 3}));
  text.replace(text.find("\"layers\": [1, 2]"), 16, "\"layers\": [1, 2], \"in_flight\": 2");
  EXPECT_THAT(support::input_error([&] { read(text); }),
              testing::HasSubstr("in_flight is 2, must be 3 or left out: gpipe has all "
                                 "micro-batches in flight"));
}

TEST(ReadPlan, SortsStagesByTheirLayers) {
  const Plan plan = read(with_stages(stage("3, 4") + ", " + stage("1, 2")));

  EXPECT_EQ(plan.stages[0].program.first_layer, 1);
  EXPECT_EQ(plan.stages[1].program.first_layer, 3);
}

TEST(ReadPlan, LetsAStageDropAndMoveItsInput) {
  const Plan plan = read(with_stages(
      stage("1, 1") + ", " +
      stage("2, 3", R"(["drop", 1], ["offload", 1], ["prefetch", 1], ["offload_tape", 2])")));
  EXPECT_EQ(plan.stages[1].program.forward.size(), 4U);
}

TEST(ReadPlan, IsReadFromYamlToo) {
  const Plan plan =
      read_plan(io::parse("format: trireme-plan/1\n"
                          "chain: {name: c, digest: d}\n"
                          "schedule: gpipe\n"
                          "micro_batches: 1\n"
                          "stages:\n"
                          "  - layers: [1, 1]\n"
                          "    budget_bytes: 2KiB\n"
                          "    forward: [[forward_tape, 1]]\n"
                          "    backward: [[backward, 1]]\n",
                          "p.yaml"));
  EXPECT_EQ(plan.stages[0].budget, Bytes(2048));
}

/// A plan of three stages, of which ranks 0 and 1 have the given ones, and keys after them.
std::string on_two_ranks(const std::vector<std::string>& of_stages, const std::string& keys) {
  std::string stages;
  for (std::size_t k = 0; k < of_stages.size(); ++k)
    stages += concat(k > 0 ? ", " : "", "{\"layers\": [", k + 1, ", ", k + 1, "], ", of_stages[k],
                     ", \"forward\": [], \"backward\": []}");
  std::string text = with_stages(stages);
  text.insert(text.size() - 1, keys);
  return text;
}

std::vector<std::string> texts(const schedule::Order& order) {
  std::vector<std::string> texts;
  for (const auto& passes : order) texts.push_back(schedule::to_text(passes));
  return texts;
}

using testing::ElementsAre;

// Plan files without `order`, as they were written before.
TEST(ReadPlan, MakesTheOrderOfOlderFiles) {
  EXPECT_THAT(texts(read(on_two_ranks({"\"in_flight\": 1, \"rank\": 1",
                                       "\"in_flight\": 1, \"weights_behind\": 1, \"rank\": 0"},
                                      ""))
                        .order),
              ElementsAre("(F1 I1)*2 W1 F1 I1 W1*2", "(F0 B0)*3"));
  const std::vector<std::string> shared{"\"rank\": 0", "\"rank\": 1", "\"rank\": 0"};
  EXPECT_THAT(texts(read(on_two_ranks(shared,
                                      ", \"turns\": [{\"rank\": 0, \"stages\": [0, 0, 0, 2, "
                                      "2, 2, 2, 2, 2, 0, 0, 0]}]"))
                        .order),
              ElementsAre("F0*3 (F2 B2)*3 B0*3", "F1*2 B1 F1 B1*2"));
}

TEST(ReadPlan, RefusesAnOrderThatIsNotOfItsStages) {
  const std::vector<std::string> two{"\"rank\": 0", "\"rank\": 1"};
  const auto refused = [&](const std::string& keys) { return refusal(on_two_ranks(two, keys)); };
  using testing::HasSubstr;
  EXPECT_THAT(refused(", \"order\": [\"F0*3 B0*3\", \"F1*3 X1\"]"),
              HasSubstr("order is not an order of passes of these stages: found 'X1'"));
  EXPECT_THAT(refused(", \"order\": [\"F0*3 B0*3\", \"F1*3 B1*2\"]"),
              HasSubstr("chunk 1 runs 3 forwards, but 2 backwards"));
  EXPECT_THAT(refused(", \"order\": [\"F0*2 B0*2\", \"F1*2 B1*2\"]"),
              HasSubstr("order is for 2 micro-batches or groups of them, must be for 3"));
  EXPECT_THAT(refused(", \"order\": [\"F0*9 B0*10\", \"\"]"), HasSubstr("more than 18 passes"));
  EXPECT_THAT(refused(", \"order\": [\"F0\\u0000\", \"F1\"]"),
              HasSubstr("found 'F0\\u0000', but a pass is F, B, I or W"));
  EXPECT_THAT(refused(", \"order\": [[3], \"F1\"]"),
              testing::EndsWith("p.json:5: order[0] is a list, must be text"));
  EXPECT_THAT(refused(", \"order\": [], \"turns\": []"),
              HasSubstr("turns stands beside `order`, which says it all: leave it out"));
}

TEST(ReadPlan, RefusesOlderFilesThatCannotRun) {
  const std::vector<std::string> shared{"\"rank\": 0", "\"rank\": 1", "\"rank\": 0"};
  using testing::HasSubstr;
  const auto with_turns = [&](const std::string& turns) {
    return refusal(on_two_ranks(shared, ", \"turns\": [" + turns + "]"));
  };
  EXPECT_THAT(with_turns("{\"rank\": 0, \"stages\": [0, 1]}"),
              HasSubstr("stages[1] is stage 1, which is not on rank 0"));
  EXPECT_THAT(with_turns("{\"rank\": 0, \"stages\": [0, 2]}"),
              HasSubstr("rank 0 has turns for 1 of the 6 passes of stage 0"));
  EXPECT_THAT(with_turns("{\"rank\": 0, \"stages\": [2, 2, 2, 2, 2, 2, 2]}"),
              HasSubstr("rank 0 has more turns of stage 2 than its 6 passes"));
  EXPECT_THAT(with_turns("{\"rank\": 1, \"stages\": [1, 1, 1, 1, 1, 1]}"),
              HasSubstr("rank 0 has turns for 0 of the 6 passes of stage 2"));
  EXPECT_THAT(refusal(on_two_ranks({"\"in_flight\": 1", "\"in_flight\": 2"}, "")),
              HasSubstr("stage 0 has 1 micro-batches in flight, must have at least 2"));
  EXPECT_THAT(refusal(on_two_ranks({"\"rank\": 0, \"weights_behind\": 1", "\"rank\": 0"}, "")),
              HasSubstr("stages[0].weights_behind is 1, but its rank, 0, has several stages"));
}

TEST(ReadPlan, RefusesABrokenHead) {
  const std::string format = "{\"format\": \"trireme-plan/1\"";
  const std::string chain = format + ",\n\"chain\": {\"name\": \"c\", \"digest\": \"d\"}";
  const std::string head = chain + ",\n\"schedule\": \"1f1b\",\n\"micro_batches\": 2";
  const std::vector<Broken> table{
      {"{}", "1: format is missing"},
      {"[]", "1: the document is a list, must be a map (key: value)"},
      {"{\"format\": 1}", "1: format is 1, must be trireme-plan/1"},
      {"{\"format\": \"trireme-plan/2\"}",
       "1: format is \"trireme-plan/2\", must be trireme-plan/1"},
      {format + "}", "1: chain is missing"},
      {format + ",\n\"chain\": \"c\"}", "2: chain is \"c\", must be a map (key: value)"},
      {format + ",\n\"chain\": {\"name\": \"c\"}}", "2: chain.digest is missing"},
      {format + ",\n\"chain\": {\"name\": \"c\", \"digest\": \"d\", \"x\": 1}}",
       "2: chain.x is not a key here (known: name, digest)"},
      {chain + "}", "1: schedule is missing"},
      {chain + ",\n\"schedule\": \"1b1f\"}",
       "3: schedule is \"1b1f\", must be one of 1f1b, gpipe, zb-h1, "
       "interleaved, looped-bfs, zb-v, v-half, v-min, dualpipe-v, searched"},
      {chain + ",\n\"schedule\": \"1f1b\"}", "1: micro_batches is missing"},
      {chain + ",\n\"schedule\": \"1f1b\",\n\"micro_batches\": 0}",
       "4: micro_batches is 0, must be a whole number from 1 to 100000"},
      {head + ",\n\"optimizer_shards\": 0}",
       "5: optimizer_shards is 0, must be a whole number from 1 to 100000"},
      {head + "}", "1: stages is missing"},
      {head + ",\n\"stages\": {}}", "5: stages is a map, must be a list"},
      {head + ",\n\"stages\": []}", "5: stages is an empty list, must have at least one stage"},
      {head + ",\n\"stage\": []}", "1: stages is missing, but there is 'stage'"},
      {head + ",\n\"stages\": [],\n\"predicted\": {\"step\": 1}}",
       "6: predicted.step is not a key here (known: step_s, bubble, recompute_s, "
       "order_bound_s, energy_j)"},
      {head + ",\n\"stages\": [],\n\"predicted\": {\"step_s\": -1}}",
       "6: predicted.step_s is -1, must be a time such as 1.5ms or 60 (seconds)"},
      {head + ",\n\"stages\": [],\n\"rank\": 1}",
       "6: rank is not a key here (known: format, chain, schedule, solver, micro_batches, tapes, "
       "weights_at_once, group, updates, update_window_bytes, replicas, optimizer_shards, "
       "predicted, "
       "stages, order, turns, alternatives)"}};
  for (const auto& [text, message] : table) EXPECT_EQ(refusal(text), "p.json:" + message);
}

TEST(ReadPlan, RefusesTwoBudgetsOfARank) {
  const std::string text =
      on_two_ranks({"\"rank\": 0, \"budget_bytes\": 5", "\"rank\": 1, \"budget_bytes\": 7",
                    "\"rank\": 0, \"budget_bytes\": 6"},
                   "");
  EXPECT_THAT(refusal(text),
              testing::HasSubstr("stages[2] has budget_bytes 6, but other layers of rank 0 have 5: "
                                 "a rank has one budget, give the same to all"));
}

TEST(ReadPlan, RefusesABrokenStage) {
  expect_refusals_of_stages(
      {{"5", "stages[0] is 5, must be a map (key: value)"},
       {"{}", "stages[0].layers is missing"},
       {"{\"layers\": 5}", "stages[0].layers is 5, must be a list"},
       {stage("1"), "stages[0].layers has 1 entries, must be [first layer, last layer]"},
       {stage("0, 1"), "stages[0].layers[0] is 0, must be a whole number from 1 to 100000"},
       {stage("2, 1"), "stages[0].layers[1] is 1, must be a whole number from 2 to 100000"},
       {"{\"layers\": [1, 1]}", "stages[0].forward is missing"},
       {"{\"layers\": [1, 1], \"forward\": []}", "stages[0].backward is missing"},
       {"{\"layers\": [1, 1], \"forward\": [], \"backward\": [], \"ranks\": 1}",
        "stages[0].ranks is not a key here (did you mean 'rank'?)"},
       {"{\"layers\": [1, 1], \"rank\": -1, \"forward\": [], \"backward\": []}",
        "stages[0].rank is -1, must be a whole number from 0 to 65535"},
       {"{\"layers\": [1, 1], \"in_flight\": 0, \"forward\": [], \"backward\": []}",
        "stages[0].in_flight is 0, must be a whole number from 1 to 100000"},
       {"{\"layers\": [1, 1], \"budget_bytes\": -5, \"forward\": [], \"backward\": []}",
        "stages[0].budget_bytes is -5, must be a size such as 2GiB or 4096 (bytes)"},
       {"{\"layers\": [1, 1], \"forward\": [], \"backward\": [], \"predicted\": {\"peak\": 1}}",
        "stages[0].predicted.peak is not a key here (known: forward_s, backward_s, kept_bytes, "
        "peak_bytes, offloaded_bytes)"}});
}

TEST(ReadPlan, RefusesABrokenMix) {
  const auto with = [](const std::string& mix) {
    return "{\"layers\": [1, 1], \"forward\": [], \"backward\": [], " + mix + "}";
  };
  const std::string other = "{\"forward\": [], \"backward\": []}";
  expect_refusals_of_stages(
      {{with("\"others\": [" + other + "]"),
        "stages[0].others needs `cycle`, too, which says which micro-batches run them"},
       {with("\"others\": [{\"forward\": []}], \"cycle\": [0, 1]"),
        "stages[0].others[0].backward is missing"},
       {with("\"others\": [" + other + "], \"cycle\": [0, 2]"),
        "stages[0].cycle[1] is 2, must be a whole number from 0 to 1"},
       {with("\"cycle\": []"), "stages[0].cycle is an empty list, must name a program"}});
}

TEST(ReadPlan, RefusesABrokenAction) {
  expect_refusals_of_stages(
      {{stage("1, 2", "\"forward 1\""), "stages[0].forward[0] is \"forward 1\", must be a list"},
       {stage("1, 2", "[\"forward_tape\"]"),
        "stages[0].forward[0] has 1 entries, must be [op, layer] such as [\"forward_tape\", 1]"},
       {stage("1, 2", "[\"forward_tape\", 1, 0]"),
        "stages[0].forward[0] has 3 entries, must be [op, layer] such as [\"forward_tape\", 1]"},
       {stage("1, 2", "", "[\"backwards\", 1]"),
        "stages[0].backward[0][0] is \"backwards\", " + kOps + " (did you mean 'backward'?)"},
       {stage("1, 2", "[\"send_output\", 2]"),
        "stages[0].forward[0][0] is \"send_output\", " + kOps},
       {stage("1, 2", "[\"step\", 0]"), "stages[0].forward[0][0] is \"step\", " + kOps},
       {stage("1, 2", "[\"forward_tape\", 3]"),
        "stages[0].forward[0][1] is 3, must be a whole number from 1 to 2"},
       {stage("1, 2", "[\"forward_tape\", 0]"),
        "stages[0].forward[0][1] is 0, must be a whole number from 1 to 2"},
       {stage("1, 2", "[\"forward_tape\", \"1\"]"),
        "stages[0].forward[0][1] is \"1\", must be a whole number from 1 to 2"},
       {stage("1, 2", "[\"drop\", 3]"),
        "stages[0].forward[0][1] is 3, must be a whole number from 0 to 2"},
       {stage("1, 2", "[\"drop\", -1]"),
        "stages[0].forward[0][1] is -1, must be a whole number from 0 to 2"},
       {stage("1, 2", "", "[\"backward\", 2], [\"offload_tape\", 0]"),
        "stages[0].backward[1][1] is 0, must be a whole number from 1 to 2"}});
}

TEST(ReadPlan, RefusesGapsAndOverlaps) {
  const std::string follow = ": stages follow each other without gaps from layer 1";
  expect_refusals_of_stages(
      {{stage("2, 3"), "stages[0].layers begins with 2, must begin with 1" + follow},
       {stage("1, 3") + ", " + stage("5, 6"),
        "stages[1].layers begins with 5, must begin with 4" + follow},
       {stage("1, 3") + ", " + stage("3, 6"),
        "stages[1].layers begins with 3, must begin with 4" + follow},
       {stage("4, 6") + ", " + stage("1, 2"),
        "stages[0].layers begins with 4, must begin with 3" + follow},
       {stage("1, 3") + ", " + stage("1, 3"),
        "stages[1].layers begins with 1, must begin with 4" + follow}});
}

TEST(ReadPlan, RefusesBrokenTurns) {
  const auto with = [](const std::string& turns) {
    const auto on = [](const std::string& layers, int rank) {
      return stage(layers).insert(1, "\"rank\": " + std::to_string(rank) + ", ");
    };
    std::string text = with_stages(on("1, 1", 0) + ", " + on("2, 2", 1) + ", " + on("3, 3", 0));
    text.pop_back();
    return refusal(text + ",\n\"turns\": [" + turns + "]}");
  };
  EXPECT_EQ(with("{\"rank\": 0}"), "p.json:6: turns[0].stages is missing");
  EXPECT_EQ(with("{\"rank\": 2, \"stages\": []}"),
            "p.json:6: turns[0].rank is 2, must be a whole number from 0 to 1");
  EXPECT_EQ(with("{\"rank\": 0, \"stages\": [0, 3]}"),
            "p.json:6: turns[0].stages[1] is 3, must be a whole number from 0 to 2");
  EXPECT_EQ(with("{\"rank\": 0, \"stages\": [0, 1]}"),
            "p.json:6: turns[0].stages[1] is stage 1, which is not on rank 0");
  EXPECT_EQ(with("{\"rank\": 0, \"stages\": [0]}, {\"rank\": 0, \"stages\": [2]}"),
            "p.json:6: turns[1].rank is 0 for the second time");
}

TEST(ReadPlan, RefusesABrokenAlternative) {
  const auto with = [](const std::string& alternative) {
    std::string text = with_stages(stage("1, 1"));
    text.pop_back();
    return refusal(text + ",\n\"alternatives\": [" + alternative + "]}");
  };
  EXPECT_EQ(with("{}"), "p.json:6: alternatives[0].policy is missing");
  EXPECT_EQ(with("{\"policy\": \"x\", \"step\": 1}"),
            "p.json:6: alternatives[0].step is not a key here (known: policy, step_s, infeasible)");
  EXPECT_EQ(with("{\"policy\": \"x\", \"infeasible\": {\"layers\": [1, 2], \"needed_bytes\": 1}}"),
            "p.json:6: alternatives[0].infeasible.available_bytes is missing");
}

TEST(ReadPlan, RefusesWhatFollowsThePlan) {
  const std::string plan = with_stages(stage("1, 1"));
  EXPECT_NO_THROW(read(plan + " \n\n"));
  EXPECT_EQ(refusal(plan + "x"),
            "p.json:5: not JSON: syntax error while parsing value - invalid literal");
  EXPECT_EQ(refusal(plan + "\n" + plan),
            "p.json:6: not JSON: syntax error while parsing value - unexpected '{'");
  EXPECT_EQ(support::input_error([&] { read_plan(io::parse(plan + "\n{}", "plan")); }),
            "plan:6: something follows the end of the document");
}

TEST(ReadPlan, RefusesAPlanCutAnywhere) {
  const std::string plan = with_stages(stage("1, 1", "[\"forward_tape\", 1]", "[\"backward\", 1]"));
  for (std::size_t size = 0; size < plan.size(); ++size)
    EXPECT_NE(refusal(plan.substr(0, size)), "no InputError was thrown") << size;
}

}  // namespace
}  // namespace trireme::plan
