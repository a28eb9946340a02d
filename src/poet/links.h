// Graphs that are chains: which they are, and what their nodes are called then.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/graph/graph.h"

#include <cstddef>
#include <string>
#include <variant>
#include <vector>

namespace trireme::poet {

/// A chain of layers 1..L. Node 0 is its input, node i <= L the output of layer i, which reads node
/// i-1 alone; node 2L+1-i is the backward of layer i: it reads the backward of layer i+1, if there
/// is one, and of the layer's output and input both, one or none.
struct Links {
  int layers = 0;
  std::vector<bool> reads_output, reads_input;  ///< by layer, from 0 on: what its backward reads

  int backward(int layer) const { return 2 * layers + 1 - layer; }
  bool needs_output(int layer) const { return reads_output[static_cast<std::size_t>(layer)]; }
  bool needs_input(int layer) const { return reads_input[static_cast<std::size_t>(layer)]; }
};

/// The graph as a chain, or in words why it is none.
std::variant<Links, std::string> links_of(const graph::Graph& graph);

}  // namespace trireme::poet
