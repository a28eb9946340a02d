// What is asked of a graph on a device: its costs there, the memory, the deadline.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/platform.h"
#include "trireme/core/units.h"
#include "trireme/graph/graph.h"

#include <limits>
#include <vector>

namespace trireme::graph {

/// Costs of a node on a device.
struct NodeCost {
  Seconds time{0};  ///< of one computation
  Seconds out{0},
      in{0};         ///< of copying its output to the offload tier, and back (page-out, page-in)
  Joules energy{0};  ///< of one computation
  Joules out_energy{0}, in_energy{0};

  bool operator==(const NodeCost&) const = default;
};

/// How copies and computations share time.
enum class Lanes {
  kInTurn,  ///< the processor does one thing at a time, as with flash on a microcontroller's bus
  kBeside,  ///< one lane in each direction runs in parallel to compute
};

struct Problem {
  Graph graph;
  std::vector<NodeCost> costs;  ///< by node
  Bytes memory = {};            ///< of outputs held at once; 0: no limit
  Bytes capacity = {};          ///< of the offload tier; 0: nothing can be offloaded
  Lanes lanes = Lanes::kInTurn;
  Watts idle{0};  ///< while nothing is computed
  Seconds deadline{std::numeric_limits<double>::infinity()};

  const NodeCost& cost(int node) const { return costs[static_cast<std::size_t>(node)]; }
};

/// The graph on a rank. A computation takes the node's measured time divided by the rank's speed,
/// or its FLOPs at the rank's FLOP/s; its energy is the measured one, or its FLOPs at the rank's
/// FLOP per joule, or the rank's busy watts for that time. A copy takes latency + bytes / rate and
/// the rank's watts for copies; without rates both ways nothing can be offloaded (`capacity` is 0,
/// and so are the costs of copies). There is no deadline. Throws InputError that names the first
/// node without a time (one with FLOPs on a rank that does not say its FLOP/s), and what the graph
/// or the platform must say.
Problem problem_of(Graph graph, const chain::RankSpec& rank, Lanes lanes);

}  // namespace trireme::graph
