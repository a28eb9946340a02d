// A graph as a chain of blocks, for solvers that know chains alone: it is cut where one forward and
// one backward value are all that is passed on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/graph/problem.h"

#include <cstddef>
#include <vector>

namespace trireme::poet {

/// Block b of 1..count(): forward nodes after output b-1 up to its own, and the backward nodes that
/// read them. No forward node of a later block reads a value before output b, and no backward node
/// of a later block; so the last backward node of block b+1 is the gradient of output b.
struct Blocks {
  std::vector<int> outputs;    ///< by block, from 0 on: the graph's input
  std::vector<int> gradients;  ///< by block, from 0 on: the last backward node of the next one
  /// By block, from 0 on: its forward values that its backward nodes read, and its output.
  std::vector<std::vector<int>> tapes;

  int count() const { return static_cast<int>(outputs.size()) - 1; }
  int output(int block) const { return outputs[static_cast<std::size_t>(block)]; }
  int first_backward(int block) const { return gradients[static_cast<std::size_t>(block)] + 1; }
  int last_backward(int block) const { return gradients[static_cast<std::size_t>(block - 1)]; }
  const std::vector<int>& tape(int block) const { return tapes[static_cast<std::size_t>(block)]; }
};

/// As many blocks as there can be. Throws InputError for a graph whose first node has inputs, or in
/// which a backward node comes before a forward one.
Blocks blocks_of(const graph::Graph& graph);

/// What blocks cost as layers of a chain. A gradient counts with the bytes of the output whose
/// gradient it is, as chains have it.
chain::Chain chain_of(const graph::Problem& problem, const Blocks& blocks);

}  // namespace trireme::poet
