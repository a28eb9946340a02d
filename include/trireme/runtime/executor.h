// The executor: reads one rank's program action by action. It decides no order and never asks which
// rank it is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/device/place.h"
#include "trireme/model/layer.h"
#include "trireme/model/taped.h"
#include "trireme/program/action.h"
#include "trireme/program/updates.h"
#include "trireme/runtime/boundary.h"
#include "trireme/runtime/late_scalars.h"
#include "trireme/runtime/optimizer.h"
#include "trireme/runtime/recorder.h"
#include "trireme/runtime/reducer.h"
#include "trireme/runtime/stage.h"
#include "trireme/runtime/step_clock.h"
#include "trireme/runtime/values.h"
#include "trireme/runtime/weights_run.h"
#include "trireme/simulate/copy_points.h"
#include "trireme/tier/value_copies.h"

#include <ATen/core/Generator.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace trireme::runtime {

/// Where x[0] and the targets come from: micro-batch -> values.
struct Feed {
  std::function<model::Values(int micro_batch)> input;
  std::function<model::Values(int micro_batch)> target;
  /// Called when the device has been asked for all of a run and may still work on it: for what the
  /// next run will take. May be empty.
  std::function<void()> meanwhile = {};
};

/// What does not change between steps.
struct ExecutorOptions {
  std::int64_t seed = 0;
  model::Precision precision = model::Precision::kFloat32;  ///< that of the stage
  bool lean_tapes = false;
  double clip_norm = 0;  ///< 0: no clipping
  double loss_scale =
      1;  ///< gradient of every micro-batch's loss: 1 / micro-batches of all replicas
  int first_micro_batch =
      0;  ///< number of this replica's micro-batch 0 among those of all replicas
  bool owns_default_generator =
      false;  ///< one rank in this process: LibTorch's own generator is keyed, too
  std::function<bool()> stop_requested;  ///< asked between actions
};

/// Where a run's time went on this rank. Compute is forward + backward + recompute + step; `wait`
/// is for other ranks, `copy_wait` for copies, also amid an action, of whose time it is no part.
/// The lanes' own time, `copy`, passes beside all that; what is left of a run is the host's.
struct Times {
  Seconds forward{0}, backward{0}, recompute{0}, step{0}, wait{0}, copy_wait{0}, copy{0};
  Seconds update_wait{0};  ///< of copy_wait, amid updates

  Seconds compute() const { return forward + backward + recompute + step; }
};

/// What one run of a program gave on this rank.
struct RunResult {
  std::vector<float> losses;  ///< per micro-batch, on the rank of the last layer; else empty
  std::optional<double> gradient_norm;  ///< before clipping, where a clip ran
  Times times;
};

/// Runs programs on one rank's stage.
class Executor {
 public:
  struct Parts {
    Stage& stage;
    Boundary& boundary;
    Reducer& reducer;
    Optimizer& optimizer;
    tier::ValueCopies* copies = nullptr;         ///< needed by programs that move values
    const device::Place& place = device::cpu();  ///< where the stage is
  };
  Executor(Parts parts, ExecutorOptions options);

  /// One training step's program. `rate` is the learning rate of its `step` action.
  ///
  /// `points`, by action, are needed where the program moves values. With a recorder, the run is
  /// written down there.
  RunResult train(const std::vector<program::Action>& actions, const Feed& feed, std::int64_t step,
                  double rate, const std::vector<simulate::CopyPoint>& points = {},
                  Recorder* recorder = nullptr);
  /// Of the last training step, what the next one would begin with: to be called before anybody
  /// looks at weights or state, also by evaluate().
  void finish_updates();
  /// A forward-only program: no tape, no dropout, buffers stay as they are.
  RunResult evaluate(const std::vector<program::Action>& actions, const Feed& feed);
  /// Frees what a run left behind that ended with an error.
  void forget();

 private:
  using Action = program::Action;
  enum class Taping { kUntaped, kTaped, kRetaped };

  RunResult run(const std::vector<Action>& actions);
  void finish();
  /// What the copy points name before an action.
  void release_copies(std::size_t action);
  void begin_copies(std::size_t action);
  void await_values(const Action& action);
  void bring_state();
  void update(const Action& action);
  /// The updated weights of a layer, or of what stays, with other replicas, within an update.
  void share(int layer);
  void await_weights(std::size_t index);
  void end_weights(std::size_t index);
  void offload(const Action& action);
  void finish_copies();
  void perform(const Action& action, std::size_t index);
  void forward(const Action& action, Taping taping);
  void untaped(const Action& action, bool repeated);
  void taped(const Action& action);
  void retaped(const Action& action);
  void backward(const Action& action);
  void backward_input(const Action& action);
  /// What a backward frees beside its tape goes, what it gives comes.
  void end_backward(const Action& action, model::Values input_gradients);
  void read_loss(const Action& action);
  void send(const Action& action, model::Values values);
  void receive(const Action& action);
  void clip();
  /// What `run` gives; errors that are the layer's name it.
  template <class Run>
  auto in_layer_of(const Action& action, const Run& run);
  model::Context context_of(const Action& action);
  const model::Values& input_of(const Action& action) const {
    return values_.output({action.layer - 1, action.micro_batch});
  }

  Parts parts_;
  ExecutorOptions options_;
  at::Generator generator_;
  StepClock clock_;
  WeightsRun weights_;
  LateScalars losses_, norm_;

  // Of the run under way.
  at::Tensor divisor_;  ///< of gradients, between clip and step
  ValueStore values_;
  std::map<ValueStore::Key, model::Values> targets_;  ///< by the layer that compares with it
  std::set<ValueStore::Key> ran_;  ///< forwards that ran once: the next one is a recomputation
  std::set<ValueStore::Key> moving_tapes_;  ///< tapes that the program moves
  std::set<ValueStore::Key> retaped_;       ///< forwards that are run again up to their last save
  std::map<ValueStore::Key, model::Outline> outlines_;         ///< waiting for that
  std::map<ValueStore::Key, model::PendingProducts> pending_;  ///< of backwards in two parts
  program::LayerUpdates updates_;
  const std::vector<simulate::CopyPoint>* points_ = nullptr;
  Recorder* recorder_ = nullptr;
  const Feed* feed_ = nullptr;
  std::int64_t step_ = 0;
  double rate_ = 0;
  bool training_ = true;
  RunResult result_;
};

}  // namespace trireme::runtime
