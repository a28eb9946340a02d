// Graphs for tests and benches of the solvers of graphs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/text.h"
#include "trireme/graph/problem.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace trireme::poet {

/// What one forward operation of a net costs.
struct Layer {
  std::vector<int> inputs;  ///< forward nodes
  Bytes bytes;
  double cost = 1;  ///< of its forward; the gradients of all its inputs cost twice as much
};

/// Node 0 is the input, node i the output of layers[i-1]. Then come gradients, from the last layer
/// to the first: that of a layer reads its output, its inputs, and the gradients of its readers; it
/// has the bytes of its inputs (POET's graphs).
inline graph::Graph with_backward(Bytes input, const std::vector<Layer>& layers) {
  const int count = static_cast<int>(layers.size());
  graph::Graph graph;
  graph.nodes.push_back({.name = "input", .bytes = input});
  std::vector<std::vector<int>> readers(layers.size() + 1);
  for (int i = 1; i <= count; ++i) {
    const Layer& layer = layers[static_cast<std::size_t>(i - 1)];
    graph.nodes.push_back({.name = concat("layer", i),
                           .inputs = layer.inputs,
                           .bytes = layer.bytes,
                           .flops = layer.cost});
    for (const int from : layer.inputs) readers[static_cast<std::size_t>(from)].push_back(i);
  }
  for (int i = count; i >= 1; --i) {
    const Layer& layer = layers[static_cast<std::size_t>(i - 1)];
    graph::Node node{.name = concat("gradient", i), .inputs = layer.inputs};
    node.inputs.push_back(i);
    for (const int reader : readers[static_cast<std::size_t>(i)]) {
      node.inputs.push_back(2 * count + 1 - reader);
    }
    for (const int from : layer.inputs) node.bytes += graph.node(from).bytes;
    std::sort(node.inputs.begin(), node.inputs.end());
    node.flops = 2 * layer.cost;
    node.is_backward = true;
    graph.nodes.push_back(node);
  }
  return graph;
}

/// A layer reads the one before it.
inline graph::Graph chain_with_backward(Bytes input, std::vector<Layer> layers) {
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i].inputs = {static_cast<int>(i)};
  return with_backward(input, layers);
}

/// Outputs of 1 byte, 1 s and 1 J for each FLOP, copies of `copy` seconds and joules each way.
inline graph::Problem unit_chain(int layers, int memory, double copy) {
  graph::Problem problem;
  const std::vector<Layer> equal(static_cast<std::size_t>(layers), Layer{.bytes = Bytes(1)});
  problem.graph = chain_with_backward(Bytes(1), equal);
  for (const graph::Node& node : problem.graph.nodes) {
    problem.costs.push_back({.time = Seconds(node.flops),
                             .out = Seconds(copy),
                             .in = Seconds(copy),
                             .energy = Joules(node.flops),
                             .out_energy = Joules(copy),
                             .in_energy = Joules(copy)});
  }
  problem.memory = Bytes(memory);
  problem.capacity = Bytes(1000);
  return problem;
}

}  // namespace trireme::poet
