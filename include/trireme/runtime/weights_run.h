// Streamed weights and gradients of a stage while a program runs: there before they are used, away
// after.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/weight_uses.h"
#include "trireme/runtime/recorder.h"
#include "trireme/runtime/reducer.h"
#include "trireme/runtime/stage.h"
#include "trireme/runtime/step_clock.h"

#include <cstddef>
#include <functional>
#include <vector>

namespace trireme::runtime {

/// Does nothing where all weights of the stage stay.
class WeightsRun {
 public:
  /// With `notes_norms`, gradients that leave for the last time were looked at for the global norm.
  WeightsRun(Stage& stage, Reducer& reducer, bool notes_norms)
      : stage_(stage), reducer_(reducer), notes_norms_(notes_norms) {}

  /// A program begins. The recorder, which may be null, is told what moves.
  void begin(const std::vector<program::Action>& actions, Recorder* recorder);
  /// Whether the action, by its number, computes with streamed weights.
  bool needs(std::size_t action) const {
    return !uses_.points.empty() && uses_.points[action].needs != 0;
  }
  /// Before it, if it does: compute comes after their copies.
  void await(std::size_t action);
  /// After it: gradients that are whole are noted for the norm; then what is used no more leaves.
  void note_norm(std::size_t action);
  void end(std::size_t action);

  /// Within reduce_gradients, after what stays: the streamed gradients of all replicas are added
  /// up, layer by layer. `waits` are for their copies, as within the update.
  void reduce(std::size_t action, const Waits& waits);
  /// Within the update: calls `update` with what it is to call before it needs a layer's weights
  /// and gradients.
  void update(std::size_t action, const Waits& waits,
              const std::function<void(const std::function<void(int layer)>&)>& update);

 private:
  void end(const program::WeightUses::Use& use);
  void note(const std::vector<program::WeightsMove>& moves);

  Stage& stage_;
  Reducer& reducer_;
  bool notes_norms_;
  Recorder* recorder_ = nullptr;
  program::WeightUses uses_;     ///< without points where all weights stay
  std::vector<bool> completes_;  ///< by action: its layer's gradients are whole after it
};

}  // namespace trireme::runtime
