// SPDX-License-Identifier: Apache-2.0
#include "trireme/graph/problem.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <utility>

namespace trireme::graph {
namespace {

Seconds time_on(const chain::RankSpec& rank, const Node& node, int index);
Joules energy_on(const chain::RankSpec& rank, const Node& node, Seconds time);

}  // namespace

Problem problem_of(Graph graph, const chain::RankSpec& rank, Lanes lanes) {
  Problem problem;
  problem.memory = rank.memory;
  problem.lanes = lanes;
  problem.idle = rank.power.idle;
  problem.costs.reserve(graph.nodes.size());
  for (int index = 0; index < graph.size(); ++index) {
    const Node& node = graph.node(index);
    NodeCost cost;
    cost.time = time_on(rank, node, index);
    cost.energy = energy_on(rank, node, cost.time);
    if (rank.can_copy()) {
      cost.out = rank.out_latency + node.bytes / rank.out;
      cost.in = rank.in_latency + node.bytes / rank.in;
      cost.out_energy = rank.power.copy_out * cost.out;
      cost.in_energy = rank.power.copy_in * cost.in;
    }
    problem.costs.push_back(cost);
  }
  if (rank.can_copy()) problem.capacity = rank.offload_capacity();
  problem.graph = std::move(graph);
  return problem;
}

namespace {

Seconds time_on(const chain::RankSpec& rank, const Node& node, int index) {
  if (node.time) return *node.time / rank.speed;
  if (node.flops == 0) return Seconds(0);
  if (rank.flops == FlopsPerSecond(0))
    throw InputError(concat("node ", index, " (", node.name, ") has ", trireme::to_text(node.flops),
                            " FLOP and no time, and the rank does not say how many it computes a "
                            "second; give the node compute_s, or the rank flops_per_s"));
  return Seconds(node.flops / rank.flops.count());
}

Joules energy_on(const chain::RankSpec& rank, const Node& node, Seconds time) {
  if (node.energy) return *node.energy;
  if (node.flops > 0 && rank.flops_energy > FlopsPerJoule(0))
    return Joules(node.flops / rank.flops_energy.count());
  return rank.power.busy * time;
}

}  // namespace
}  // namespace trireme::graph
