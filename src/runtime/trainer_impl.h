// What a trainer is made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "feeds.h"
#include "loss_log.h"
#include "saved_state.h"
#include "step_samples.h"

#include "trireme/program/action.h"
#include "trireme/runtime/boundary.h"
#include "trireme/runtime/executor.h"
#include "trireme/runtime/optimizer.h"
#include "trireme/runtime/position.h"
#include "trireme/runtime/recorder.h"
#include "trireme/runtime/reducer.h"
#include "trireme/runtime/stage.h"
#include "trireme/runtime/streamed_weights.h"
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

  /// Of the optimizer's state of this rank, what the plan has in the offload tier.
  Bytes my_away() const;
  /// Whether replicas divide the optimizer's state.
  bool has_shards() const { return setup.plan.optimizer_shards > 1; }
  /// Every rank; null on those that stream none.
  std::unique_ptr<StreamedWeights> open_weights() const;
  /// Makes the optimizer, and copies where there are some. A large offload tier takes its time to
  /// be pinned.
  void open_offload_tier();
  /// Every rank: what the device holds while none takes or frees anything, for several ranks may
  /// share one.
  Bytes live_between_rounds() const;
  /// Where values are not those that were drawn.
  void begin();
  /// Every rank.
  ParameterCount counted() const;
  void train(Observer* observer);
  void train_step(std::int64_t step);
  void report(Observer* observer);
  /// Of steps that an error has left untold, those whose losses this rank alone has.
  void tell_rest(Observer* observer) noexcept;
  void validate(Observer* observer);
  /// Also what an earlier save left unfinished.
  void save(Observer* observer, bool stops);
  /// A checkpoint that was begun, where there is one: waits for it.
  void finish_save(Observer* observer);
  /// The same, if it needs no waiting.
  void publish_written(Observer* observer);
  /// Every rank: whether one was.
  bool is_asked_to_stop();
  /// Whether this is the last step, or one of every so many.
  bool is_due(int every) const {
    return steps_done == setup.job.train.steps || (every > 0 && steps_done % every == 0);
  }
  Outcome outcome();
  std::vector<RankFigures> gather_figures(const Times& of_median_step);

  TrainSetup setup;
  program::Program program;
  std::optional<program::Program> evaluation;
  Position position;
  std::unique_ptr<StreamedWeights> weights;
  Stage stage;
  Reducer reducer;
  std::optional<Optimizer> optimizer;
  std::unique_ptr<tier::ValueCopies> copies;
  /// Gone before what is above: pinned memory goes when the device has nothing to do, and after an
  /// error it may have a message that nobody takes.
  Boundary boundary;
  std::optional<Executor> executor;
  LossLog losses;
  Feeds feeds;
  std::optional<SavedState> state;
  Recorder recorder;
  StepSamples samples;
  Bytes static_bytes;

  std::vector<Times> times;  ///< of every step
  std::vector<StepRecord> unreported;
  std::vector<double> step_seconds;
  std::int64_t tokens = 0;      ///< of these steps
  std::int64_t steps_done = 0;  ///< or begun
  ParameterCount count;
  std::set<std::string> as_begun;  ///< as in SavedState::Restored
  std::optional<double> validation_loss;
};

}  // namespace trireme::runtime
