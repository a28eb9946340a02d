// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/weight_uses.h"

#include <cstddef>

namespace trireme::program {
namespace {

/// Neighbouring actions of one layer, others that need no such weights between them.
struct Use {
  int layer = 0;
  std::size_t last = 0;  ///< action
};

/// The next use from `from` on, round and round, and the one after it that is of another layer.
HeldWeights held_for(const std::vector<Use>& uses, std::size_t from) {
  HeldWeights held;
  const auto layer_at = [&](std::size_t i) { return uses[i % uses.size()].layer; };
  held.layers[0] = layer_at(from);
  for (std::size_t i = from; i < from + uses.size() && held.layers[1] == 0; ++i)
    if (layer_at(i) != held.layers[0]) held.layers[1] = layer_at(i);
  return held;
}

}  // namespace

bool uses_weights(Op op) {
  return is_forward(op) || op == Op::kBackward;
}

WeightUses weight_uses(const std::vector<Action>& actions, const std::vector<bool>& is_streamed) {
  WeightUses result;
  result.points.resize(actions.size());
  std::vector<Use> uses;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    if (!uses_weights(action.op) || !is_streamed.at(static_cast<std::size_t>(action.layer)))
      continue;
    result.points[i].needs = action.layer;
    if (uses.empty() || uses.back().layer != action.layer) uses.push_back({action.layer, i});
    uses.back().last = i;
  }
  if (uses.empty()) return result;
  for (std::size_t k = 0; k < uses.size(); ++k) {
    WeightUses::Point& point = result.points[uses[k].last];
    point.ends_use = true;
    point.held = held_for(uses, k + 1);
  }
  result.first = held_for(uses, 0);
  return result;
}

}  // namespace trireme::program
