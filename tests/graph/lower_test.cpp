// Programs of schedules: what is loaded, freed, copied and awaited, and where.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/graph/lower.h"

#include "trireme/graph/timeline.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trireme::graph {
namespace {

/// An input, three forward nodes of which the last is the loss, and two gradients.
Graph small_graph() {
  return {.name = "small",
          .nodes = {{.name = "input", .bytes = Bytes(8)},
                    {.name = "a", .inputs = {0}, .bytes = Bytes(16)},
                    {.name = "b", .inputs = {1}, .bytes = Bytes(32)},
                    {.name = "loss", .inputs = {2}, .bytes = Bytes(4)},
                    {.name = "b.grad", .inputs = {2}, .bytes = Bytes(32), .is_backward = true},
                    {.name = "a.grad", .inputs = {1, 4}, .bytes = Bytes(0), .is_backward = true}}};
}

std::string lowered(std::string_view schedule, int micro_batches = 1) {
  const Graph graph = small_graph();
  const program::Program program = lower(parse_schedule(schedule, graph), graph, micro_batches);
  std::string text;
  for (const program::Action& action : program.ranks.at(0)) text += to_text(action) + "\n";
  return text;
}

TEST(Lower, LoadsReadsTheLossAndFreesWhereTheScheduleDrops) {
  EXPECT_EQ(lowered("c0-5"),
            "0:load_input 0\n0:compute 1\n0:drop 0\n0:compute 2\n0:load_target 3\n0:compute 3\n"
            "0:read_loss 3\n0:gradient 4\n0:drop 2\n0:gradient 5\n0:drop 1\n0:drop 4\n0:drop 5\n"
            "0:reduce_gradients 0\n0:clip 0\n0:step 0\n");
}

TEST(Lower, RunsTheScheduleForEveryMicroBatch) {
  const std::string text = lowered("c0-5", 2);
  EXPECT_NE(text.find("0:drop 5\n1:load_input 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("1:drop 5\n0:reduce_gradients 0\n"), std::string::npos) << text;
}

// The copy out of node 1 may run until its bytes are needed; the copy in until gradient 5.
TEST(Lower, AwaitsACopyWhereItsValueIsNeeded) {
  EXPECT_EQ(lowered("c0-1 o1 c2-3 i1 c4-5"),
            "0:load_input 0\n0:compute 1\n0:drop 0\n0:offload 1\n0:compute 2\n0:release 1\n"
            "0:load_target 3\n0:compute 3\n0:read_loss 3\n0:prefetch 1\n0:copy_in 1\n"
            "0:gradient 4\n0:drop 2\n0:await 1\n0:gradient 5\n0:drop 1\n0:drop 4\n0:drop 5\n"
            "0:reduce_gradients 0\n0:clip 0\n0:step 0\n");
}

// What comes in again stays in the offload tier until the last time.
TEST(Lower, KeepsTheCopyOfAValueThatComesTwice) {
  const std::string text = lowered("c0-1 o1 i1 c2-4 i1 c5");
  EXPECT_NE(text.find("0:await_copy 1\n0:compute 2\n0:free 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("0:await 1\n0:gradient 5\n0:drop 1\n"), std::string::npos) << text;
}

TEST(Lower, LeavesOutACopyThatNothingReads) {
  const std::string text = lowered("c0-1 o1 c2-5");
  EXPECT_EQ(text.find("offload"), std::string::npos) << text;
}

TEST(Lower, ComputesAgainWhatTheScheduleDoes) {
  const std::string text = lowered("c0-4 c1 c5");
  EXPECT_NE(text.find("0:gradient 4\n0:drop 2\n0:compute 1\n"), std::string::npos) << text;
}

TEST(Forwards, DropEveryValueAfterItsLastUse) {
  const program::Program program = forwards({{0}, {1}, {1, 2}}, 1);
  std::string text;
  for (const program::Action& action : program.ranks.at(0)) text += to_text(action) + "\n";
  EXPECT_EQ(text,
            "0:load_input 0\n0:load_target 3\n0:compute 1\n0:drop 0\n0:compute 2\n0:compute 3\n"
            "0:drop 1\n0:drop 2\n0:read_loss 3\n");
}

TEST(Timeline, RepeatsTheStepForEveryMicroBatch) {
  Problem problem{.graph = small_graph()};
  for (int i = 0; i < problem.graph.size(); ++i)
    problem.costs.push_back({.time = Seconds(i == 0 ? 0 : 1), .energy = Joules(2)});
  const Schedule schedule = keep_all(problem.graph);
  const Replayed replayed = replay(problem, schedule);
  const simulate::Simulation step = timeline(
      problem, schedule, replayed, {.micro_batches = 3, .fixed = Bytes(100), .update = Seconds(2)});
  EXPECT_EQ(step.step, Seconds(3 * 5 + 2));
  EXPECT_EQ(step.ranks.at(0).busy, Seconds(3 * 5 + 2));
  EXPECT_EQ(step.ranks.at(0).peak.size, Bytes(100) + replayed.outcome.peak);
  EXPECT_EQ(step.energy.compute, Joules(3 * 6 * 2));
  EXPECT_EQ(step.events.size(), 3U * 6U);
  EXPECT_EQ(to_text(step.events.back().action), "2:gradient 5");
}

TEST(Timeline, SumsTheTimesOfCopies) {
  Problem problem{.graph = small_graph(), .capacity = Bytes(100), .lanes = Lanes::kBeside};
  for (int i = 0; i < problem.graph.size(); ++i)
    problem.costs.push_back({.time = Seconds(1), .out = Seconds(0.25), .in = Seconds(0.5)});
  const Schedule schedule = parse_schedule("c0-1 o1 c2-3 i1 c4-5", problem.graph);
  const simulate::Simulation step =
      timeline(problem, schedule, replay(problem, schedule), {.micro_batches = 2});
  EXPECT_EQ(step.ranks.at(0).copies_out, Seconds(2 * 0.25));
  EXPECT_EQ(step.ranks.at(0).copies_in, Seconds(2 * 0.5));
}

}  // namespace
}  // namespace trireme::graph
