// Small graphs at random, with all that makes a difference to a solver.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "poet/graphs.h"

#include "trireme/poet/solve.h"

#include <algorithm>
#include <random>
#include <vector>

namespace trireme::poet {

inline int draw(std::mt19937& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
}

inline graph::Graph random_chain(std::mt19937& random, int layers) {
  std::vector<Layer> costs;
  for (int i = 0; i < layers; ++i) {
    costs.push_back({.bytes = Bytes(draw(random, 1, 6)), .cost = 1.0 * draw(random, 1, 5)});
  }
  return chain_with_backward(Bytes(draw(random, 1, 4)), costs);
}

/// Forward nodes that read one or two earlier ones; as many backward nodes, each of which reads the
/// gradient before it, or another one, and forward nodes. Some leave nothing in memory.
inline graph::Graph random_dag(std::mt19937& random, int nodes) {
  graph::Graph graph;
  const int forward = nodes - nodes / 2;
  for (int i = 0; i < nodes; ++i) {
    graph::Node node{.name = concat("n", i), .bytes = Bytes(draw(random, 1, 6))};
    node.is_backward = i >= forward;
    node.flops = draw(random, 1, 5);
    if (i > 0) node.inputs.push_back(i - 1);
    if (node.is_backward && i > forward && draw(random, 0, 3) == 0) {
      node.inputs[0] = draw(random, forward, i - 1);
    }
    const int more = draw(random, node.is_backward ? 1 : 0, node.is_backward ? 2 : 1);
    for (int k = 0; k < more && i > 0; ++k) {
      node.inputs.push_back(draw(random, 0, std::min(i, forward) - 1));
    }
    std::sort(node.inputs.begin(), node.inputs.end());
    node.inputs.erase(std::unique(node.inputs.begin(), node.inputs.end()), node.inputs.end());
    if (draw(random, 0, 9) == 0) node.bytes = Bytes(0);
    graph.nodes.push_back(node);
  }
  return graph;
}

/// Energies down to nanojoules; copies that are dear or cheap, slow or fast.
inline void random_costs(std::mt19937& random, graph::Problem& problem) {
  const double joules = draw(random, 0, 2) == 0 ? 1e-9 : 1;
  const double copy_joules = 0.125 * draw(random, 1, 16),
               copy_seconds = 0.125 * draw(random, 1, 16);
  for (const graph::Node& node : problem.graph.nodes) {
    const auto bytes = static_cast<double>(node.bytes.count());
    problem.costs.push_back({.time = Seconds(node.flops),
                             .out = Seconds(copy_seconds * bytes),
                             .in = Seconds(copy_seconds * (bytes + 0.25)),
                             .energy = Joules(joules * (node.flops + draw(random, 0, 2))),
                             .out_energy = Joules(joules * copy_joules * bytes),
                             .in_energy = Joules(joules * copy_joules * (bytes + 0.25))});
  }
  if (draw(random, 0, 2) == 0) problem.idle = Watts(joules * 0.25 * draw(random, 1, 4));
}

/// Memory from a little too small to almost enough for everything; a deadline from too early to
/// late.
inline void random_limits(std::mt19937& random, graph::Problem& problem) {
  const graph::Outcome most = replay(problem, keep_all(problem.graph)).outcome;
  int widest = 0;
  for (const graph::Node& node : problem.graph.nodes) {
    Bytes width = node.bytes;
    for (const int input : node.inputs) width += problem.graph.node(input).bytes;
    widest = std::max(widest, static_cast<int>(width.count()));
  }
  const int peak = static_cast<int>(most.peak.count());
  problem.memory = Bytes(draw(random, std::max(1, widest - 1), std::max(widest, peak - 1)));
  const int room = draw(random, 0, 5);
  problem.capacity = Bytes(room == 0 ? 0 : room == 1 ? draw(random, 1, 8) : 1000);
  if (draw(random, 0, 1) == 0) problem.deadline = most.time * (0.95 + 0.15 * draw(random, 0, 12));
}

struct Instance {
  graph::Problem problem;
  Freedom freedom;
};

inline Instance random_instance(std::mt19937& random, graph::Lanes lanes, int most_nodes) {
  Instance instance;
  graph::Problem& problem = instance.problem;
  problem.lanes = lanes;
  problem.graph = draw(random, 0, 2) == 0
                      ? random_chain(random, draw(random, 2, (most_nodes - 1) / 2))
                      : random_dag(random, draw(random, 4, most_nodes));
  random_costs(random, problem);
  random_limits(random, problem);
  const int freedom = draw(random, 0, 7);
  instance.freedom.may_recompute = freedom != 0;
  instance.freedom.may_copy = freedom != 1;
  if (draw(random, 0, 3) == 0) instance.freedom.objective = Objective::kTime;
  return instance;
}

/// The same; half of the nodes with inputs need more bytes while they are computed.
inline Instance random_instance_with_transients(std::mt19937& random, graph::Lanes lanes,
                                                int most_nodes) {
  Instance instance = random_instance(random, lanes, most_nodes);
  graph::Problem& problem = instance.problem;
  for (graph::Node& node : problem.graph.nodes) {
    if (!node.inputs.empty() && draw(random, 0, 1) == 0) node.transient = Bytes(draw(random, 1, 4));
  }
  problem.memory += Bytes(draw(random, 0, 4));
  return instance;
}

}  // namespace trireme::poet
