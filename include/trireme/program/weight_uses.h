// When a rank needs the weights of its streamed layers (parameter offload).
//
// These weights are in the offload tier and are copied to the device for every run of uses of their
// layer, while layers before it are used. Trained ones take their gradients with them: for a
// backward, which adds to them, and for the update. A rank then holds those of a few layers at a
// time, whatever its program.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"

#include <optional>
#include <vector>

namespace trireme::program {

/// Whether an action of that kind computes with its layer's weights.
bool uses_weights(Op op);

/// Whether a layer's weights are always on the device (kStay) or streamed.
enum class WeightsKind : char { kStay, kFrozen, kTrained };

/// What must be on the device of a layer that is used soon.
struct HeldLayer {
  /// kNew: old values are not needed, the next backward begins the sums.
  enum class Gradients : char { kNone, kNew, kSums };

  int layer = 0;
  bool weights = true;
  Gradients gradients = Gradients::kNone;

  bool operator==(const HeldLayer&) const = default;
};

/// The layers with something on the device, or being copied in, in the order of their next uses.
using HeldWeights = std::vector<HeldLayer>;

/// What a use of a layer changes: nothing; its gradients; its weights, after which its gradients
/// are not needed; or its weights while its gradients are still needed, for the rest of an update
/// or a backward after it.
enum class WeightsChange : char { kNothing, kGradients, kUpdate, kUpdateInPart };

/// The uses of one rank's streamed weights in one run of its actions, which is repeated.
struct WeightUses {
  /// Consecutive uses of one layer.
  struct Use {
    int layer = 0;
    WeightsChange change = WeightsChange::kNothing;
    HeldWeights held = {};  ///< must be on the device after it
  };
  struct Point {
    int needs = 0;                 ///< the action waits for the weights of this layer
    bool needs_gradients = false;  ///< and for its gradients
    std::optional<Use> ends = {};  ///< the use that ends with the action
    std::vector<Use> within = {};  ///< uses within an action that takes layer after layer
  };
  HeldWeights first;          ///< on the device when the actions begin
  std::vector<Point> points;  ///< by action; empty where no weights are streamed
};

/// Least and default number of streamed layers on the device at a time: the one in use, and the
/// next one.
inline constexpr int kLeastAtOnce = 2;

/// `kinds[i]` is that of layer i of 1..L. The next `at_once` streamed layers to be used are held,
/// fewer where there are fewer; after the last use the first ones, so that what is there at the end
/// is there when the actions begin again. reduce_gradients uses trained layers only with
/// `has_replicas`, over which it adds their gradients. Layers with an `update` are not used by
/// `step`; an update before their backwards uses the gradients of the previous run.
///
/// With no more than `at_once` such layers all are held all the time. With more, the end of a use
/// frees its own layer and no other, and a layer is freed as soon as it was updated.
WeightUses weight_uses(const std::vector<Action>& actions, const std::vector<WeightsKind>& kinds,
                       int at_once = kLeastAtOnce, bool has_replicas = false);

}  // namespace trireme::program
