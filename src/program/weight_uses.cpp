// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/weight_uses.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

namespace trireme::program {
namespace {

/// Neighbouring actions of one layer, others that need no such weights between them.
struct Use {
  int layer = 0;
  std::size_t last = 0;  ///< action
};

/// Of the uses from `from` on, round and round, the layers of the first ones.
HeldWeights held_for(const std::vector<Use>& uses, std::size_t from, int at_once) {
  HeldWeights held;
  for (std::size_t i = from; i < from + uses.size(); ++i) {
    if (std::cmp_equal(held.layers.size(), at_once)) break;
    const int layer = uses[i % uses.size()].layer;
    if (!held.has(layer)) held.layers.push_back(layer);
  }
  return held;
}

}  // namespace

bool uses_weights(Op op) {
  return is_forward(op) || op == Op::kBackward;
}

WeightUses weight_uses(const std::vector<Action>& actions, const std::vector<bool>& is_streamed,
                       int at_once) {
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
  std::set<int> layers;
  for (const Use& use : uses) layers.insert(use.layer);
  at_once = static_cast<int>(std::min(std::size_t(at_once), layers.size()));
  for (std::size_t k = 0; k < uses.size(); ++k) {
    WeightUses::Point& point = result.points[uses[k].last];
    point.ends_use = true;
    point.held = held_for(uses, k + 1, at_once);
  }
  result.first = held_for(uses, 0, at_once);
  return result;
}

}  // namespace trireme::program
