// The executor: runs one rank's program action by action. It makes no scheduling decisions and
// never asks which rank it is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state/stage.h"
#include "step/graph_shape.h"
#include "step/recorder.h"
#include "step/values.h"
#include "update/late_scalars.h"
#include "update/optimizer.h"
#include "update/reducer.h"
#include "update/step_clock.h"

#include "trireme/core/units.h"
#include "trireme/device/place.h"
#include "trireme/model/given.h"
#include "trireme/model/layer.h"
#include "trireme/model/taped.h"
#include "trireme/model/traced.h"
#include "trireme/program/action.h"
#include "trireme/program/updates.h"
#include "trireme/record/summary.h"
#include "trireme/runtime/boundary.h"
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

/// Source of x[0] and the targets: micro-batch -> values.
struct Feed {
  std::function<model::Values(int micro_batch)> input;
  std::function<model::Values(int micro_batch)> target;
  /// model::Context::documents. May be empty: each row is one text.
  std::function<std::vector<std::int64_t>(int micro_batch)> documents = {};
  /// Called once all work of a run is queued on the device, which may still be busy: to load what
  /// the next run needs. May be empty.
  std::function<void()> meanwhile = {};
};

/// Options that do not change between steps.
struct ExecutorOptions {
  std::int64_t seed = 0;
  model::Precision precision = model::Precision::kFloat32;  ///< that of the stage
  bool lean_tapes = false;
  double clip_norm = 0;  ///< 0: no clipping
  /// Gradient of every micro-batch's loss: 1 / micro-batches of all replicas.
  double loss_scale = 1;
  /// Number of this replica's micro-batch 0 among those of all replicas.
  int first_micro_batch = 0;
  /// One rank in this process: LibTorch's default generator is seeded, too.
  bool owns_default_generator = false;
  std::function<bool()> stop_requested;  ///< asked between actions
};

/// Result of running a program on this rank.
struct RunResult {
  std::vector<float> losses;  ///< per micro-batch, on the rank of the last layer; else empty
  std::optional<double> gradient_norm;  ///< before clipping, where a clip ran
  /// Waits within an action are not part of the action's own time; what no time counts is host
  /// time.
  record::StepTimes times;
};

/// Runs programs on one rank's stage.
class Executor {
 public:
  struct Parts {
    Stage& stage;
    Boundary& boundary;
    Reducer& reducer;
    Optimizer& optimizer;
    tier::ValueCopies* copies = nullptr;         ///< required by programs that offload activations
    const device::Place& place = device::cpu();  ///< where the stage is
    const GraphShape* graph = nullptr;           ///< of a model that is a graph
  };
  Executor(Parts parts, ExecutorOptions options);

  /// Runs one training step's program. `rate` is the learning rate of its `step` action.
  ///
  /// The actions are complete: with their moves of streamed weights (program::with_weights) and
  /// their placed copies (simulate::place_copies). The recorder, if given, records the run.
  RunResult train(const std::vector<program::Action>& actions, const Feed& feed, std::int64_t step,
                  double rate, Recorder* recorder = nullptr);
  /// Completes the updates that the last training step left to the next one (updates before
  /// forwards): to be called before anything reads weights or state, including evaluate().
  void finish_updates();
  /// Runs a forward-only program: no tape, no dropout, buffers unchanged.
  RunResult evaluate(const std::vector<program::Action>& actions, const Feed& feed);
  /// Frees what is left of a run that ended with an error.
  void forget();

 private:
  using Action = program::Action;
  enum class Taping { kUntaped, kTaped, kRetaped };

  /// State of one run, which it begins with and no later run sees.
  struct Run {
    const Feed* feed = nullptr;  ///< null: the program loads nothing
    Recorder* recorder = nullptr;
    double rate = 0;
    bool training = true;

    program::LayerUpdates updates = {};
    std::set<ValueStore::Key> moving_tapes = {};  ///< tapes that the program moves
    std::set<ValueStore::Key> retaped = {};       ///< forwards with early-stop recomputation
    ValueStore values = {};
    std::map<ValueStore::Key, model::Values> targets = {};    ///< by the layer that uses them
    std::map<int, std::vector<std::int64_t>> documents = {};  ///< by micro-batch
    /// Forwards that ran once: the next one is a recomputation.
    std::set<ValueStore::Key> ran = {};
    std::map<ValueStore::Key, model::Outline> outlines = {};  ///< for early-stop recomputation
    /// Deferred weight gradients of split backwards.
    std::map<ValueStore::Key, model::PendingProducts> pending = {};
    std::map<int, model::Trace> traces = {};  ///< of a graph's layers in this micro-batch
    int micro_batch = -1;                     ///< of a graph, the one that runs
    at::Tensor divisor = {};  ///< gradients are divided by it; set between clip and step
    RunResult result = {};
  };

  RunResult run(const std::vector<Action>& actions, Run begun);
  void finish();
  /// Brings to the device what the actions expect there when they begin.
  void bring_weights(const std::vector<Action>& actions);
  void finish_copies();
  void perform(const Action& action);
  /// An action that copies values, weights or state, frees their bytes, or waits for copies.
  void move(const Action& action);
  void offload(const Action& action);
  void update(const Action& action);
  void reduce(int layer);
  void step(int layer);
  /// Within an update: distributes the updated weights of a layer (0: those that stay on the
  /// device) to the other replicas.
  void share(int layer);
  /// The layer's streamed gradients, if it has any, have changed; they are counted in the norm.
  void note_gradients(int layer);
  void note_norm(int layer);
  /// Gradients of the layer's streamed weights; of layer 0: of all weights that stay.
  model::GradientSums& sums_of(int layer);
  void forward(const Action& action, Taping taping);
  void untaped(const Action& action, bool repeated);
  void taped(const Action& action);
  void retaped(const Action& action);
  /// For graphs: a layer's forward, the first time with a trace.
  void compute(const Action& action);
  /// For graphs: the gradient of a value.
  void gradient(const Action& action);
  /// One part of it.
  at::Tensor gradient_of(const Action& action, const model::GradientNode::Use& use,
                         bool adds_weights);
  /// Frees what the micro-batch before has left.
  void begin_micro_batch(int micro_batch);
  void end_micro_batch();
  void backward(const Action& action);
  void backward_input(const Action& action);
  /// Frees what a backward frees besides its tape, and stores its input gradients.
  void end_backward(const Action& action, model::Values input_gradients);
  void read_loss(const Action& action);
  void send(const Action& action, model::Values values);
  void receive(const Action& action);
  void clip();
  /// Returns run(); errors raised by the layer name it.
  template <class Body>
  auto in_layer_of(int layer, const Body& body) {
    return model::in_layer(layer, parts_.stage.layer_name(layer), parts_.stage.layer(layer), body);
  }
  model::Context context_of(const Action& action);
  const std::vector<std::int64_t>& documents_of(int micro_batch);
  const model::Values& input_of(const Action& action) const {
    return run_.values.output({action.layer - 1, action.micro_batch});
  }

  Parts parts_;
  ExecutorOptions options_;
  at::Generator generator_;
  StepClock clock_;
  LateScalars losses_, norm_;

  std::vector<Action> last_actions_;  ///< of a stage with streamed weights
  std::int64_t step_ = 0;             ///< of the last training step
  Run run_;                           ///< the current one
};

}  // namespace trireme::runtime
