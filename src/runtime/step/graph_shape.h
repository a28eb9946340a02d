// What the executor knows of a model that is a graph: which values its nodes read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/chain.h"
#include "trireme/model/graph.h"

#include <vector>

namespace trireme::runtime {

/// Nodes as in programs (graph/lower.h): 0 is the input, 1..L are the layers, later ones are
/// gradients.
class GraphShape {
 public:
  explicit GraphShape(const model::ChainModel& model);

  int layers() const { return static_cast<int>(inputs_.size()); }
  const std::vector<int>& inputs(int layer) const {
    return inputs_[static_cast<std::size_t>(layer) - 1];
  }
  /// By input of the layer, whether it gets a gradient.
  const std::vector<bool>& wants_gradient(int layer) const {
    return wants_[static_cast<std::size_t>(layer) - 1];
  }
  const model::GradientNode& gradient(int node) const {
    return gradients_[static_cast<std::size_t>(node - layers() - 1)];
  }
  /// The node that is the gradient of a value.
  int gradient_of(int value) const { return node_of_[static_cast<std::size_t>(value)]; }

 private:
  std::vector<std::vector<int>> inputs_;
  std::vector<std::vector<bool>> wants_;
  std::vector<model::GradientNode> gradients_;
  std::vector<int> node_of_;  ///< by value; 0: it has no gradient
};

}  // namespace trireme::runtime
