// When a rank needs the weights of layers that it does not hold all the time.
//
// Such weights lie in the offload tier and are copied to the device for every run of uses of their
// layer, while layers before it are used. Those that are trained take their gradients with them:
// for a backward, which adds to them, and for the update. A rank then holds those of a few layers
// at a time, whatever its program.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"

#include <optional>
#include <vector>

namespace trireme::program {

/// Whether an action of that kind computes with its layer's weights.
bool uses_weights(Op op);

/// Where a layer's weights are: always on the device, or there for their uses.
enum class WeightsKind : char { kStay, kFrozen, kTrained };

/// What shall be on the device of a layer that is used soon.
struct HeldLayer {
  /// kNew: whatever they were, the next backward begins them anew.
  enum class Gradients : char { kNone, kNew, kSums };

  int layer = 0;
  bool weights = true;
  Gradients gradients = Gradients::kNone;

  bool operator==(const HeldLayer&) const = default;
};

/// The layers of which something is on the device, or on its way there, in the order of their next
/// uses.
using HeldWeights = std::vector<HeldLayer>;

/// What a use of a layer leaves changed: nothing, its gradients, or its weights, after which nobody
/// needs the gradients; or its weights, and gradients that are needed: for the rest of an update,
/// or of a backward behind it.
enum class WeightsChange : char { kNothing, kGradients, kUpdate, kUpdateInPart };

/// What one rank's weights do while it runs its actions once, as it does again and again.
struct WeightUses {
  /// A run of uses of one layer.
  struct Use {
    int layer = 0;
    WeightsChange change = WeightsChange::kNothing;
    HeldWeights held = {};  ///< what shall be there after it
  };
  struct Point {
    int needs = 0;                 ///< before the action, weights of this layer are awaited
    bool needs_gradients = false;  ///< and its gradients
    std::optional<Use> ends = {};  ///< with the action
    std::vector<Use> within = {};  ///< the action uses layer after layer
  };
  HeldWeights first;          ///< when the actions begin
  std::vector<Point> points;  ///< by action; none where all weights stay
};

/// Layers whose weights are on the device at a time, if nobody says more: that of the use at hand,
/// and the next one.
inline constexpr int kLeastAtOnce = 2;

/// `kinds[i]`: of layer i of 1..L. Those of the next `at_once` layers to be used are held, fewer
/// where there are fewer; after the last use, those of the first ones: what is there then is there
/// when the actions begin again. reduce_gradients uses trained ones only with `has_replicas`, with
/// whose gradients theirs are added up. Layers with an `update` are not used by `step`; one that
/// stands before their backwards is of the gradients that the run before this one has left.
///
/// With `at_once` or fewer of such layers all of them are held all the time. With more, nothing but
/// its own layer leaves when a use ends, and a layer that was updated leaves at once.
WeightUses weight_uses(const std::vector<Action>& actions, const std::vector<WeightsKind>& kinds,
                       int at_once = kLeastAtOnce, bool has_replicas = false);

}  // namespace trireme::program
