// The backward of a model that is a graph: which gradients there are, and what each is made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/chain.h"

#include <vector>

namespace trireme::model {

/// The gradient of a value, summed over the layers that read it.
struct GradientNode {
  struct Use {
    int layer = 0;              ///< that reads the value
    int input = 0;              ///< as which of its inputs
    bool adds_weights = false;  ///< the gradients of the layer's weights are computed here, too
  };

  int value = 0;
  std::vector<Use> uses;  ///< the last layer first, as the gradients are added
  /// Whether the value needs a gradient; otherwise only gradients of weights are computed.
  bool gives_gradient = true;
};

/// The gradients of a graph in the order in which they can be computed: the last value first. The
/// gradients of a layer's weights belong to the first of its inputs to be reached.
std::vector<GradientNode> gradient_nodes(const ChainModel& model);

}  // namespace trireme::model
