// When a rank needs the weights of layers that it does not hold all the time.
//
// Such weights are frozen: they lie in the outer tier and are copied to the device for every run of
// uses of their layer, while layers before it are used. A rank then holds those of a few layers at
// a time, whatever its program.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"

#include <algorithm>
#include <vector>

namespace trireme::program {

/// Whether an action of that kind computes with its layer's weights.
bool uses_weights(Op op);

/// The layers whose weights are on the device, or on their way there, in the order of their next
/// uses.
struct HeldWeights {
  std::vector<int> layers;

  bool has(int layer) const {
    return std::find(layers.begin(), layers.end(), layer) != layers.end();
  }
  bool operator==(const HeldWeights&) const = default;
};

/// What one rank's weights do while it runs its actions once, as it does again and again.
struct WeightUses {
  struct Point {
    int needs = 0;          ///< before the action, the weights of this layer are awaited; 0: none
    bool ends_use = false;  ///< after the action, `held` is what shall be there
    HeldWeights held = {};
  };
  HeldWeights first;          ///< when the actions begin
  std::vector<Point> points;  ///< by action
};

/// Layers whose weights are on the device at a time, if nobody says more: that of the use at hand,
/// and the next one.
inline constexpr int kLeastAtOnce = 2;

/// `is_streamed[i]`: whether the weights of layer i of 1..L come and go. Those of the next
/// `at_once` layers to be used are held, fewer where there are fewer; after the last use, those of
/// the first ones: what is there then is there when the actions begin again.
WeightUses weight_uses(const std::vector<Action>& actions, const std::vector<bool>& is_streamed,
                       int at_once = kLeastAtOnce);

}  // namespace trireme::program
