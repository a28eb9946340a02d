// SPDX-License-Identifier: Apache-2.0
#include "step/graph_shape.h"

#include <cstddef>

namespace trireme::runtime {

GraphShape::GraphShape(const model::ChainModel& model)
    : inputs_(model.inputs),
      gradients_(model::gradient_nodes(model)),
      node_of_(model.inputs.size() + 1) {
  for (const std::vector<int>& inputs : inputs_) wants_.emplace_back(inputs.size(), false);
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    const model::GradientNode& node = gradients_[i];
    node_of_[static_cast<std::size_t>(node.value)] = layers() + 1 + static_cast<int>(i);
    if (!node.gives_gradient) continue;
    for (const model::GradientNode::Use& use : node.uses)
      wants_[static_cast<std::size_t>(use.layer) - 1][static_cast<std::size_t>(use.input)] = true;
  }
}

}  // namespace trireme::runtime
