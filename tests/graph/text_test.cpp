// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/text.h"

#include "support/input_error.h"

#include "trireme/graph/schedule.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace trireme::graph {
namespace {

using support::input_error;

/// Nodes v0, v1, ... that read the one before; `skips` read the one before that, too.
Graph chain_of(int size, const std::vector<int>& skips = {}) {
  Graph graph{.name = "g", .nodes = {}};
  for (int i = 0; i < size; ++i) {
    graph.nodes.push_back({.name = concat("v", i)});
    if (i > 0) graph.nodes.back().inputs = {i - 1};
  }
  for (const int i : skips) graph.nodes[static_cast<std::size_t>(i)].inputs = {i - 2, i - 1};
  return graph;
}

constexpr Action c(int node) {
  return {Op::kCompute, node};
}
constexpr Action o(int node) {
  return {Op::kCopyOut, node};
}
constexpr Action i(int node) {
  return {Op::kCopyIn, node};
}
constexpr Action d(int node) {
  return {Op::kDrop, node};
}

TEST(ScheduleText, IsALineForEachActionWithTheNodesName) {
  EXPECT_EQ(to_text({c(0), o(0), d(0), i(0)}, chain_of(1)),
            "compute 0  # v0\ncopy_out 0  # v0\ndrop 0  # v0\ncopy_in 0  # v0\n");
}

TEST(CompactSchedule, LeavesOutDropsRightAfterTheLastNeed) {
  const Graph graph = chain_of(4, {3});  // v3 reads v1 and v2
  EXPECT_EQ(to_compact({c(0), c(1), d(0), c(2), c(3), d(1), d(2), d(3)}, graph), "c0-3");
}

TEST(CompactSchedule, LeavesOutDropsBeforeAValueIsMadeAgain) {
  const Graph graph = chain_of(4, {3});
  EXPECT_EQ(
      to_compact({c(0), c(1), d(0), c(2), d(1), c(0), c(1), d(0), c(3), d(1), d(2), d(3)}, graph),
      "c0-2 c0-1 c3");
  EXPECT_EQ(to_compact({c(0), c(1), d(0), o(1), c(2), d(1), i(1), c(3), d(1), d(2), d(3)}, graph),
            "c0-1 o1 c2 i1 c3");
}

TEST(CompactSchedule, SaysWhatIsDroppedLaterOrNever) {
  const Graph graph = chain_of(3);
  EXPECT_EQ(to_compact({c(0), c(1), c(2), d(0), d(1)}, graph), "c0-1 k0 c2 k1-2 d0-1");
  EXPECT_EQ(to_compact({c(0), c(1), c(2)}, graph), "c0-1 k0 c2 k1-2");
}

TEST(CompactSchedule, SaysWhatIsDroppedTooEarly) {
  const Graph graph = chain_of(2);
  EXPECT_EQ(to_compact({c(0), d(0), c(1), d(0), d(1)}, graph), "c0 d0 c1");
}

TEST(CompactSchedule, SaysDropsInAnotherOrder) {
  const Graph graph = chain_of(4, {3});
  const Schedule schedule{c(0), c(1), d(0), c(2), c(3), d(3), d(2), d(1)};
  EXPECT_EQ(to_compact(schedule, graph), "c0-3 k1-3 d3 d2 d1");
}

TEST(ParseSchedule, ReadsBackAnySequenceOfActionsFromBothForms) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    const int size = 1 + static_cast<int>(random() % 6);
    const Graph graph = size > 3 ? chain_of(size, {3}) : chain_of(size);
    Schedule schedule;
    for (std::size_t left = random() % 30; left > 0; --left) {
      constexpr Op kOps[] = {Op::kCompute, Op::kCompute, Op::kCopyOut,
                             Op::kCopyIn,  Op::kDrop,    Op::kDrop};
      schedule.push_back({kOps[random() % std::size(kOps)], static_cast<int>(random()) & 0xff});
      schedule.back().node %= size;
    }
    EXPECT_EQ(parse_schedule(to_text(schedule, graph), graph), schedule)
        << to_text(schedule, graph);
    EXPECT_EQ(parse_schedule(to_compact(schedule, graph), graph), schedule)
        << to_compact(schedule, graph);
  }
}

TEST(ParseSchedule, ReadsWhatPeopleWrite) {
  const Graph graph = chain_of(3);
  const Schedule schedule{c(0), c(1), d(0), c(2), d(1), d(2)};
  EXPECT_EQ(parse_schedule("# the fastest\n\n  c0-1\tc2 # all\r\n", graph), schedule);
  EXPECT_EQ(
      parse_schedule(" compute   0\r\ncompute 1\n\ndrop 0 # v0\ncompute 2\ndrop 1\ndrop 2", graph),
      schedule);
  EXPECT_EQ(parse_schedule("", graph), Schedule{});
  EXPECT_EQ(parse_schedule("  # nothing\n", graph), Schedule{});
}

/// A step of a network with as many layers as backward nodes: gradient k reads the gradient before
/// it and what layer n - k has read.
Graph training_step(int layers) {
  Graph graph = chain_of(layers + 1);
  for (int k = 1; k <= layers; ++k) {
    graph.nodes.push_back({.name = concat("grad", k), .is_backward = true});
    graph.nodes.back().inputs = {layers - k};
    if (k > 1) graph.nodes.back().inputs.push_back(layers + k - 1);
  }
  return graph;
}

TEST(CompactSchedule, OfANetworkIsSomeHundredBytes) {
  // 61 nodes. Every fifth output is kept, every tenth goes to the offload tier and comes back; the
  // five between are computed again: 24 of 30.
  const int layers = 30;
  const Graph graph = training_step(layers);
  ASSERT_EQ(graph.size(), 61);
  Schedule schedule;
  const auto compute = [&](int node) { schedule.push_back(c(node)); };
  for (int node = 0; node <= layers; ++node) {
    compute(node);
    if (node % 10 == 0) schedule.insert(schedule.end(), {o(node), d(node)});
    if (node % 5 != 0 && node + 5 <= layers) schedule.push_back(d(node - 1));
  }
  for (int node = layers - 1; node >= 0; --node) {
    if (node % 5 == 4) {
      if ((node - 4) % 10 == 0) schedule.push_back(i(node - 4));
      for (int again = node - 3; again <= node; ++again) compute(again);
    }
    compute(2 * layers - node);
    schedule.push_back(d(node));
  }
  const std::string text = to_compact(schedule, graph);

  EXPECT_LE(text.size(), 500U) << text;
  EXPECT_EQ(parse_schedule(text, graph), schedule);
}

TEST(ParseSchedule, RefusesWhatIsNoSchedule) {
  struct Refused {
    std::string text;
    std::string message;
  };
  const std::vector<Refused> table{
      {"x1",
       "word 1 of a schedule is 'x1', must be one of c, o, i, d, k and a node, such as c3 or "
       "c3-7"},
      {"c0\nc1 c3", "word 3 of a schedule is 'c3', must name a node from 0 to 2"},
      {"c0 c-1", "word 2 of a schedule is 'c-1', must name a node from 0 to 2"},
      {"c", "word 1 of a schedule is 'c', must name a node from 0 to 2"},
      {"c1x", "word 1 of a schedule is 'c1x', must name a node from 0 to 2"},
      {"c99999999999", "word 1 of a schedule is 'c99999999999', must name a node from 0 to 2"},
      {"c0-9", "word 1 of a schedule is 'c0-9', must name a node from 0 to 2"},
      {"c2-1", "word 1 of a schedule is 'c2-1', must be a run of ascending nodes, such as c3-7"},
      {"c0 k0 c1",
       "word 2 of a schedule is 'k0', must name values that would be dropped here, and "
       "0 would not: it is needed later, or is not in memory"},
      {"k0",
       "word 1 of a schedule is 'k0', must name values that would be dropped here, and 0 "
       "would not: it is needed later, or is not in memory"},
      {"compute 0\n\nforward 1",
       "line 3 of a schedule is 'forward 1', must be compute, copy_out, "
       "copy_in or drop, and a node, such as 'compute 3'"},
      {"compute",
       "line 1 of a schedule is 'compute', must be compute, copy_out, copy_in or drop, "
       "and a node, such as 'compute 3'"},
      {"compute 0\nc1",
       "line 2 of a schedule is 'c1', must be compute, copy_out, copy_in or drop, "
       "and a node, such as 'compute 3'"},
      {"drop 3", "line 1 of a schedule is 'drop 3', must name a node from 0 to 2"},
      {"drop 1 2", "line 1 of a schedule is 'drop 1 2', must name a node from 0 to 2"},
      {"\x1b[2J",
       "line 1 of a schedule is '\\u001b[2J', must be compute, copy_out, copy_in or "
       "drop, and a node, such as 'compute 3'"}};
  const Graph graph = chain_of(3);
  for (const auto& [text, message] : table)
    EXPECT_EQ(input_error([&] { parse_schedule(text, graph); }), message);
}

TEST(ParseSchedule, RefusesAShortTextOfVeryManyActions) {
  const Graph graph = chain_of(1000);
  std::string text;
  for (std::size_t k = 0; k < kMaxActions / 1000; ++k) text += "c0-999 ";
  EXPECT_GE(parse_schedule(text, graph).size(), kMaxActions);
  EXPECT_EQ(input_error([&] { parse_schedule(text + "c0", graph); }),
            "word 1001 of a schedule is 'c0', must not be there: it is action 1000001, and a "
            "schedule has at most 1000000");
}

}  // namespace
}  // namespace trireme::graph
