// The parts of a trainer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "feeds.h"
#include "saved/loss_log.h"
#include "saved/saved_state.h"
#include "state/stage.h"
#include "state/streamed_weights.h"
#include "step/executor.h"
#include "step/recorder.h"
#include "step_samples.h"
#include "update/optimizer.h"
#include "update/reducer.h"

#include "trireme/program/action.h"
#include "trireme/record/metrics.h"
#include "trireme/record/summary.h"
#include "trireme/runtime/boundary.h"
#include "trireme/runtime/position.h"
#include "trireme/runtime/trainer.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace trireme::runtime {

struct Trainer::Impl {
  explicit Impl(const TrainSetup& given);

  const std::vector<program::Action>& my_actions() const { return program.ranks[index_of_rank()]; }
  std::size_t index_of_rank() const { return static_cast<std::size_t>(position.pipeline_rank); }

  /// Optimizer state of this rank that the plan offloads.
  Bytes my_offloaded_state() const;
  /// Whether the optimizer is sharded over replicas.
  bool has_shards() const { return setup.plan.optimizer_shards > 1; }
  /// The program of a validation.
  program::Program compiled_evaluation() const;
  /// Collective; null on ranks that stream no weights.
  std::unique_ptr<StreamedWeights> open_weights() const;
  /// Creates the optimizer, and copies if there are some. Pinning a large offload tier takes time.
  void open_offload_tier();
  /// Collective: device bytes while no rank allocates or frees anything, since several ranks may
  /// share a device.
  Bytes live_between_rounds() const;
  /// Restores a checkpoint or loads weights, if values are not the drawn ones.
  void begin();
  /// Collective.
  record::ParameterCount counted() const;
  void train(Observer* observer);
  void train_step(std::int64_t step);
  /// What the meter has counted so far; nothing where there is none, or it failed.
  std::optional<Joules> counted_energy();
  void report(Observer* observer);
  /// After an error: tells of the remaining steps if this rank alone has their losses.
  void tell_rest(Observer* observer) noexcept;
  void validate(Observer* observer);
  /// Also finishes an earlier save.
  void save(Observer* observer, bool stops);
  /// Waits for a checkpoint that was begun, if there is one.
  void finish_save(Observer* observer);
  /// The same, if all ranks have written it already.
  void publish_written(Observer* observer);
  /// Collective: whether some rank was asked to.
  bool is_asked_to_stop();
  /// Whether this is the last step, or one of every `every`.
  bool is_due(int every) const {
    return steps_done == setup.job.train.steps || (every > 0 && steps_done % every == 0);
  }
  FinishedRun finished();
  std::vector<record::RankSummary> gather_ranks(const record::StepTimes& of_median_step);

  TrainSetup setup;
  const program::Program& program;
  std::optional<program::Program> evaluation;
  Position position;
  std::unique_ptr<StreamedWeights> weights;
  Stage stage;
  Reducer reducer;
  std::optional<Optimizer> optimizer;
  std::unique_ptr<tier::ValueCopies> copies;
  /// Destroyed before what is above: pinned memory is freed when the device is idle, and after an
  /// error it may have a message that is never received.
  Boundary boundary;
  std::optional<GraphShape> graph;
  std::optional<Executor> executor;
  LossLog losses;
  Feeds feeds;
  std::optional<SavedState> state;
  Recorder recorder;
  StepSamples samples;
  Bytes static_bytes;

  std::vector<record::StepTimes> times;  ///< by step
  std::vector<record::StepMetrics> unreported;
  std::vector<double> step_seconds;
  std::optional<Joules> energy = Joules(0);  ///< of these steps; nothing once the meter failed
  std::int64_t tokens = 0;                   ///< tokens of these steps
  std::int64_t steps_done = 0;               ///< including the one that was begun
  record::ParameterCount count;
  std::set<std::string> as_begun;  ///< as in SavedState::Restored
  std::optional<double> validation_loss;
};

}  // namespace trireme::runtime
