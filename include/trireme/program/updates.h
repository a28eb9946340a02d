// Overlapped optimizer step: streamed layers are updated while they are on the device for a pass,
// so that their optimizer state is copied during passes and not after them.
//
// Zhao et al. 2024 (GaLore) and Lv et al. 2023 (LOMO) update a layer right after its backward, to
// hold the gradients of few layers; Ren et al. 2021 (ZeRO-Offload) overlap an update with the next
// step's forwards, which then use weights of the step before. Here every forward has the weights
// that it would have after an update at the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::program {

/// When streamed layers with trained weights are updated. All others are updated at the end.
enum class UpdatePlace : char {
  kAtEnd,       ///< at the end of the step, one after the other
  kInBackward,  ///< right after their last backward: before gradients of all layers are known, so
                ///< not with clipping or replicas
  kInForward,   ///< right before their first forward of the next step
};

/// "at_end", "in_backward", "in_forward".
std::string_view name(UpdatePlace place);
std::optional<UpdatePlace> update_place_named(std::string_view name);
/// All names, in the order of the enumeration.
const std::vector<std::string>& update_place_names();

/// The streamed layers of a rank, ascending, that are updated during passes with `at_once` of them
/// on the device at a time. For kInForward not the last ones: they stay from their forward to their
/// backward, and would have to be copied out with changed weights and changed gradients.
std::vector<int> updated_layers(const std::vector<int>& streamed, UpdatePlace place, int at_once);

/// The program with an update of each of these layers, by rank, where `place` says. With `at_once`
/// above kLeastAtOnce it is split into parts, one after every backward of the layers up to the next
/// one that is updated, or every forward of those since the one before, so that state is copied
/// during these passes. For ranks that run their layers in order.
///
/// Offloaded state of these layers is copied in from `state_in` on: before the first backward of
/// the last micro-batch, or first of all where the updates are of the step before. `await_state`
/// follows the last update.
Program with_updates(Program program, const std::vector<std::vector<int>>& layers,
                     UpdatePlace place, int at_once);

/// The layer updates in a rank's list of actions.
struct LayerUpdates {
  struct Layer {
    int layer = 0;
    int parts = 0;  ///< actions
  };
  std::vector<Layer> layers;  ///< in the order of their first parts
  UpdatePlace place = UpdatePlace::kAtEnd;
  /// Number of parts of the layer's update; 0 without one.
  int parts(int layer) const;
};
LayerUpdates layer_updates(const std::vector<Action>& actions);

}  // namespace trireme::program
