// Small chains at random, with all that makes a difference to tables over their parts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "poet/random_problems.h"

#include <algorithm>
#include <random>

namespace trireme::poet {

/// Backwards read what they read in real nets: the output, the input, both or none of their layer.
/// Some values leave nothing in memory.
inline graph::Graph random_mixed_chain(std::mt19937& random, int layers) {
  graph::Graph graph = random_chain(random, layers);
  for (int layer = 1; layer <= layers; ++layer) {
    graph::Node& backward = graph.nodes[static_cast<std::size_t>(2 * layers + 1 - layer)];
    backward.bytes = Bytes(draw(random, 1, 6));
    const int reads = draw(random, 0, 6);
    std::erase_if(backward.inputs, [&](int input) {
      return (input == layer && (reads == 1 || reads == 3)) ||
             (input == layer - 1 && (reads == 2 || reads == 3));
    });
  }
  if (draw(random, 0, 3) == 0) {
    const int node = draw(random, 1, 2 * layers);
    graph.nodes[static_cast<std::size_t>(node)].bytes = Bytes(0);
  }
  return graph;
}

struct ChainKind {
  int most_layers = 6;
  bool has_deadline = false;
  graph::Lanes lanes = graph::Lanes::kInTurn;
};

/// Where keep_all does not fit. Half of the chains are POET's, whose backwards read output and
/// input. There is room outside for everything or for nothing.
inline Instance random_chain_instance(std::mt19937& random, const ChainKind& kind) {
  Instance instance;
  graph::Problem& problem = instance.problem;
  problem.lanes = kind.lanes;
  const int layers = draw(random, 2, kind.most_layers);
  problem.graph =
      draw(random, 0, 1) == 0 ? random_chain(random, layers) : random_mixed_chain(random, layers);
  random_costs(random, problem);
  random_limits(random, problem);
  if (problem.capacity < Bytes(1000) && problem.capacity > Bytes(0)) problem.capacity = Bytes(1000);
  Seconds least{0};
  for (const graph::NodeCost& cost : problem.costs) least += cost.time;
  problem.deadline = graph::Problem{}.deadline;
  if (kind.has_deadline) problem.deadline = least * (1.02 + 0.04 * draw(random, 0, 15));
  const int freedom = draw(random, 0, 7);
  instance.freedom.may_recompute = freedom != 0;
  instance.freedom.may_copy = freedom != 1;
  if (!kind.has_deadline && draw(random, 0, 3) == 0) instance.freedom.objective = Objective::kTime;
  return instance;
}

}  // namespace trireme::poet
