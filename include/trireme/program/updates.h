// Layers whose weights come and go, updated while they are there for a pass: their state is copied
// beside passes then, and not after them.
//
// Zhao et al. 2024 (GaLore) and Lv et al. 2023 (LOMO) update a layer right after its backward, to
// hold the gradients of few layers; Ren et al. 2021 (ZeRO-Offload) let an update run into the next
// step's forwards, though with weights that are a step old there. Here every forward has the
// weights that it would have after an update at the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::program {

/// When layers are updated whose trained weights come and go. All others are updated at the end.
enum class UpdatePlace : char {
  kAtEnd,       ///< of the step, one after the other
  kInBackward,  ///< right after their last backward: before gradients of all layers are known, so
                ///< not where those are clipped, or added up over replicas
  kInForward,   ///< right before their first forward of the next step
};

/// "at_end", "in_backward", "in_forward".
std::string_view name(UpdatePlace place);
std::optional<UpdatePlace> update_place_named(std::string_view name);
/// All names, in the order of the enumeration.
const std::vector<std::string>& update_place_names();

/// Of a rank's streamed layers, ascending, those that have an update of their own with `at_once` of
/// them on the device at a time. Before forwards not the last ones: they stay from there to their
/// backward, and would leave with weights and gradients both changed.
std::vector<int> updated_layers(const std::vector<int>& streamed, UpdatePlace place, int at_once);

/// The program with an update of each of these layers, by rank, where `place` says. With more than
/// kLeastAtOnce layers there at a time it is done in parts, one behind every backward of the layers
/// up to the next one that is updated, or every forward of those since the one before: so that
/// state is copied beside them. For ranks that run their layers in order.
Program with_updates(Program program, const std::vector<std::vector<int>>& layers,
                     UpdatePlace place, int at_once);

/// What a rank's list of actions says of updates of layers alone.
struct LayerUpdates {
  struct Layer {
    int layer = 0;
    int parts = 0;  ///< actions
  };
  std::vector<Layer> layers;  ///< in the order of their first parts
  UpdatePlace place = UpdatePlace::kAtEnd;
  /// Before which action state begins to come: with the first backward of the last micro-batch, or
  /// at once where the updates are of the step before; and the last update, behind which all of it
  /// has left. Both their number where there are none.
  std::size_t state_begins = 0, last = 0;

  /// Whether state comes and goes while the action runs.
  bool has_state(std::size_t action) const { return state_begins <= action && action <= last; }
  /// 0 of a layer without any.
  int parts(int layer) const;
};
LayerUpdates layer_updates(const std::vector<Action>& actions);

}  // namespace trireme::program
