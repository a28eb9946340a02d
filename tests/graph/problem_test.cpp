// SPDX-License-Identifier: Apache-2.0
#include "trireme/graph/problem.h"

#include "support/input_error.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace trireme::graph {
namespace {

using support::input_error;

Graph graph_of(std::vector<Node> nodes) {
  return {.name = "g", .nodes = std::move(nodes)};
}

chain::RankSpec device() {
  return {.memory = Bytes(100),
          .host = Bytes(30),
          .disk = Bytes(50),
          .out = BytesPerSecond(4),
          .in = BytesPerSecond(8),
          .speed = 2,
          .power = {.busy = Watts(5), .idle = Watts(3), .copy_out = Watts(7), .copy_in = Watts(11)},
          .out_latency = Seconds(1),
          .in_latency = Seconds(2),
          .flops = FlopsPerSecond(10),
          .flops_energy = FlopsPerJoule(100)};
}

TEST(ProblemOf, TakesMemoryPowerAndLanesOfTheRank) {
  const Graph graph = graph_of({{.name = "x", .bytes = Bytes(8)}});
  const Problem problem = problem_of(graph, device(), Lanes::kBeside);

  EXPECT_EQ(problem.graph, graph);
  EXPECT_EQ(problem.memory, Bytes(100));
  EXPECT_EQ(problem.capacity, Bytes(80));
  EXPECT_EQ(problem.lanes, Lanes::kBeside);
  EXPECT_EQ(problem.idle, Watts(3));
  EXPECT_EQ(problem.deadline, Seconds(std::numeric_limits<double>::infinity()));
}

TEST(ProblemOf, CountsFlopsAtTheRanksRates) {
  const Problem problem =
      problem_of(graph_of({{.name = "x", .flops = 50}}), device(), Lanes::kInTurn);
  EXPECT_EQ(problem.cost(0).time, Seconds(5));  // not scaled by the speed
  EXPECT_EQ(problem.cost(0).energy, Joules(0.5));
}

TEST(ProblemOf, PrefersWhatWasMeasured) {
  const Problem problem =
      problem_of(graph_of({{.name = "x", .flops = 50, .time = Seconds(6), .energy = Joules(0.25)}}),
                 device(), Lanes::kInTurn);
  EXPECT_EQ(problem.cost(0).time, Seconds(3));  // twice as fast as where it was measured
  EXPECT_EQ(problem.cost(0).energy, Joules(0.25));
}

TEST(ProblemOf, CountsBusyWattsWhereNothingElseSaysJoules) {
  chain::RankSpec rank = device();
  const Graph graph = graph_of({{.name = "x", .time = Seconds(6)}, {.name = "y", .flops = 50}});
  EXPECT_EQ(problem_of(graph, rank, Lanes::kInTurn).cost(0).energy, Joules(5 * 3));
  rank.flops_energy = FlopsPerJoule(0);
  EXPECT_EQ(problem_of(graph, rank, Lanes::kInTurn).cost(1).energy, Joules(5 * 5));
}

TEST(ProblemOf, CopiesAfterTheLatencyAtTheRateWithTheWattsOfTheirDirection) {
  const Problem problem =
      problem_of(graph_of({{.name = "x", .bytes = Bytes(16)}}), device(), Lanes::kInTurn);
  EXPECT_EQ(problem.cost(0), (NodeCost{.time = Seconds(0),
                                       .out = Seconds(1 + 4),
                                       .in = Seconds(2 + 2),
                                       .energy = Joules(0),
                                       .out_energy = Joules(7 * 5),
                                       .in_energy = Joules(11 * 4)}));
}

TEST(ProblemOf, OffloadsNothingWithoutRatesBothWays) {
  for (BytesPerSecond chain::RankSpec::*const rate :
       {&chain::RankSpec::out, &chain::RankSpec::in}) {
    chain::RankSpec rank = device();
    rank.*rate = BytesPerSecond(0);
    const Problem problem =
        problem_of(graph_of({{.name = "x", .bytes = Bytes(16)}}), rank, Lanes::kInTurn);
    EXPECT_EQ(problem.capacity, Bytes(0));
    EXPECT_EQ(problem.cost(0), NodeCost{});
  }
}

TEST(ProblemOf, RefusesTheFirstNodeWithoutATime) {
  chain::RankSpec rank = device();
  rank.flops = FlopsPerSecond(0);
  const Graph graph = graph_of({{.name = "input"},
                                {.name = "conv1", .time = Seconds(1)},
                                {.name = "conv2", .flops = 2.5e9},
                                {.name = "conv3", .flops = 1}});
  EXPECT_EQ(input_error([&] { problem_of(graph, rank, Lanes::kInTurn); }),
            "node 2 (conv2) has 2.5e+09 FLOP and no time, and the rank does not say how many it "
            "computes a second; give the node compute_s, or the rank flops_per_s");
}

}  // namespace
}  // namespace trireme::graph
