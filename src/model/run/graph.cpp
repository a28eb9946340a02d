// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/graph.h"

#include "trireme/core/error.h"

#include <algorithm>
#include <cstddef>

namespace trireme::model {
namespace {

/// By value, whether something before or in the layer that makes it is trained.
std::vector<bool> needs_of(const ChainModel& model);
const std::vector<int>& inputs_of(const ChainModel& model, int layer);

}  // namespace

std::vector<GradientNode> gradient_nodes(const ChainModel& model) {
  ensure(model.is_graph(), "a chain's gradients follow its layers");
  const std::vector<bool> needs = needs_of(model);
  std::vector<bool> has_added(model.layers.size() + 1);
  std::vector<GradientNode> nodes;
  for (int value = model.length() - 1; value >= 0; --value) {
    GradientNode node{.value = value, .uses = {}};
    node.gives_gradient = needs[static_cast<std::size_t>(value)];
    for (int layer = model.length(); layer > value; --layer) {
      const std::vector<int>& inputs = inputs_of(model, layer);
      const auto found = std::find(inputs.begin(), inputs.end(), value);
      if (found == inputs.end()) continue;
      const bool is_trained = model.layers[static_cast<std::size_t>(layer) - 1].has_weights;
      const bool adds = is_trained && !has_added[static_cast<std::size_t>(layer)];
      if (!adds && !node.gives_gradient) continue;
      if (adds) has_added[static_cast<std::size_t>(layer)] = true;
      node.uses.push_back({layer, static_cast<int>(found - inputs.begin()), adds});
    }
    if (!node.uses.empty()) nodes.push_back(std::move(node));
  }
  return nodes;
}

namespace {

std::vector<bool> needs_of(const ChainModel& model) {
  std::vector<bool> needs{false};
  for (int layer = 1; layer <= model.length(); ++layer) {
    const std::vector<int>& inputs = inputs_of(model, layer);
    needs.push_back(model.layers[static_cast<std::size_t>(layer) - 1].has_weights ||
                    std::any_of(inputs.begin(), inputs.end(), [&](int input) {
                      return bool(needs[static_cast<std::size_t>(input)]);
                    }));
  }
  return needs;
}

const std::vector<int>& inputs_of(const ChainModel& model, int layer) {
  return model.inputs[static_cast<std::size_t>(layer) - 1];
}

}  // namespace
}  // namespace trireme::model
