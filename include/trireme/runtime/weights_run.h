// Streams a stage's weights and gradients while a program runs: copied in before they are used,
// freed or copied out after.
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

/// Does nothing where all weights of the stage stay on the device.
class WeightsRun {
 public:
  /// With `notes_norms`, gradients are counted in the global norm before they leave for the last
  /// time.
  WeightsRun(Stage& stage, Reducer& reducer, bool notes_norms)
      : stage_(stage), reducer_(reducer), notes_norms_(notes_norms) {}

  /// A program begins. The recorder, which may be null, is told of all moves.
  void begin(const std::vector<program::Action>& actions, Recorder* recorder);
  /// Whether the action, by its number, computes with streamed weights.
  bool needs(std::size_t action) const {
    return !uses_.points.empty() && uses_.points[action].needs != 0;
  }
  /// Before such an action: compute waits for their copies.
  void await(std::size_t action);
  /// After it: counts complete gradients in the norm; then end() moves out what is no longer used.
  void note_norm(std::size_t action);
  void end(std::size_t action);

  /// Within reduce_gradients, after the gradients that stay on the device: sums the streamed ones
  /// over replicas, layer by layer. `waits` times the waits for their copies, as within the update.
  void reduce(std::size_t action, const Waits& waits);
  /// Within the update: calls `update` with a function that it must call before it needs a layer's
  /// weights and gradients.
  void update(std::size_t action, const Waits& waits,
              const std::function<void(const std::function<void(int layer)>&)>& update);

 private:
  void end(const program::WeightUses::Use& use);
  void note(const std::vector<program::WeightsMove>& moves);

  Stage& stage_;
  Reducer& reducer_;
  bool notes_norms_;
  Recorder* recorder_ = nullptr;
  program::WeightUses uses_;     ///< no points where all weights stay on the device
  std::vector<bool> completes_;  ///< by action: its layer's gradients are complete after it
};

}  // namespace trireme::runtime
