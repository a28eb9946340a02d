// What one rank has of its streamed weights, and what brings it to what it shall have: the moves
// that the simulator counts and the runtime makes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/weight_uses.h"

#include <map>
#include <vector>

namespace trireme::program {

struct WeightsMove {
  /// kLetGo: its bytes are free, nobody needs what is in them; kOut: they are once a copy out has
  /// ended; kTake: there is room for it, with anything in it; kIn: and a copy in begins.
  enum class Kind : char { kLetGo, kOut, kTake, kIn };

  Kind kind{};
  int layer = 0;
  bool of_gradients = false;

  bool operator==(const WeightsMove&) const = default;
};

/// In the beginning everything is away.
class WeightsHere {
 public:
  /// Moves after which `held` and nothing else is here or on its way: first what goes, then what
  /// comes, in the order of `held`.
  std::vector<WeightsMove> hold(const HeldWeights& held);
  /// A use of the layer has ended.
  void used(int layer, WeightsChange change);

  bool has_weights(int layer) const { return has(layer) && here_.at(layer).weights; }
  bool has_gradients(int layer) const { return has(layer) && here_.at(layer).gradients; }

 private:
  /// Without any entry: nothing is here.
  struct Layer {
    bool weights = false, gradients = false;         ///< whether they are here
    bool weights_changed = false, has_sums = false;  ///< what the offload tier does not have
  };
  bool has(int layer) const { return here_.contains(layer); }

  std::map<int, Layer> here_;
};

}  // namespace trireme::program
