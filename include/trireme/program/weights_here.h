// Residency of streamed weights on one rank's device: the moves from what is there to what must be
// there. The simulator counts these moves, the runtime makes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/weight_uses.h"

#include <map>
#include <vector>

namespace trireme::program {

struct WeightsMove {
  /// kLetGo: its bytes are freed, the content is not needed; kOut: they are freed once a copy out
  /// has ended; kTake: room is allocated, with any content; kIn: room is allocated and a copy in
  /// begins.
  enum class Kind : char { kLetGo, kOut, kTake, kIn };

  Kind kind{};
  int layer = 0;
  bool of_gradients = false;

  bool operator==(const WeightsMove&) const = default;
};

/// At the beginning all weights are offloaded.
class WeightsHere {
 public:
  /// Moves after which `held` and nothing else is on the device or being copied in: first frees and
  /// copies out, then allocations and copies in, in the order of `held`.
  std::vector<WeightsMove> hold(const HeldWeights& held);
  /// A move was made that hold() did not ask for.
  void moved(const WeightsMove& move);
  /// A use of the layer has ended.
  void used(int layer, WeightsChange change);

  bool has_weights(int layer) const { return has(layer) && here_.at(layer).weights; }
  bool operator==(const WeightsHere&) const = default;

  bool has_gradients(int layer) const { return has(layer) && here_.at(layer).gradients; }

 private:
  /// A layer without an entry has nothing on the device.
  struct Layer {
    bool weights = false, gradients = false;         ///< whether they are on the device
    bool weights_changed = false, has_sums = false;  ///< what the offload tier lacks

    bool operator==(const Layer&) const = default;
  };
  bool has(int layer) const { return here_.contains(layer); }

  std::map<int, Layer> here_;
};

}  // namespace trireme::program
