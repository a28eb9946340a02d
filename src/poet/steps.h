// Which earlier nodes matter in a step. In step t node t is computed for the first time; before it,
// earlier nodes may be read back or made again, in the order of the graph.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/graph/graph.h"

#include <vector>

namespace trireme::poet {

class Steps {
 public:
  /// `may_be_made_again`: by node.
  Steps(const graph::Graph& graph, std::vector<bool> may_be_made_again);

  /// Earlier nodes whose outputs this step or a later one may need: to compute a node for the first
  /// time, or to make such an earlier node again. Without outputs of 0 bytes, which never leave.
  const std::vector<int>& useful(int step) const { return useful_[static_cast<std::size_t>(step)]; }
  /// The same; first those that are used first by a node's first computation.
  std::vector<int> useful_by_next_use(int step) const;
  bool is_useful(int step, int node) const {
    return step <= last_useful_[static_cast<std::size_t>(node)];
  }
  /// The inputs of a node that have bytes.
  const std::vector<int>& inputs(int node) const { return inputs_[static_cast<std::size_t>(node)]; }
  /// Whether `node` may be read in `step` at a place after `place`.
  bool has_later_place(int step, int node, int place) const;
  /// A node without inputs that have bytes, and without transient bytes. It is made again right
  /// before it is used.
  bool is_source(int node) const { return is_source_[static_cast<std::size_t>(node)]; }
  bool may_be_made_again(int node) const {
    return may_be_made_again_[static_cast<std::size_t>(node)];
  }
  /// Nodes that have a place of their own in a step: those that may be made again there, without
  /// sources, then the step's own.
  std::vector<int> places(int step) const;
  int count() const { return static_cast<int>(useful_.size()); }

 private:
  std::vector<bool> may_be_made_again_, is_source_;
  std::vector<std::vector<int>> useful_, inputs_, users_;
  std::vector<int> last_useful_;
};

}  // namespace trireme::poet
