// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/trainer.h"

#include "feeds.h"
#include "initial_weights.h"
#include "loss_log.h"
#include "saved_state.h"
#include "step_history.h"
#include "step_samples.h"

#include "trireme/comm/rounds.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/program/generate.h"
#include "trireme/runtime/digest.h"

#include <ATen/Parallel.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <utility>

namespace trireme::runtime {
namespace {

using Clock = std::chrono::steady_clock;

Bytes most_resident() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return Bytes(std::int64_t{usage.ru_maxrss} << 10);
}

std::vector<int> layers_of(const program::Program& program, int rank) {
  std::vector<int> layers;
  for (int i = 1; i <= program.layers; ++i) {
    if (program.rank_of_layer[static_cast<std::size_t>(i)] == rank) layers.push_back(i);
  }
  return layers;
}

ExecutorOptions executor_options(const TrainSetup& setup, const Position& position) {
  const int per_replica = config::micro_batches(setup.job);
  return {.seed = setup.job.train.seed,
          .precision = model::precision_of(setup.job.train.precision),
          .lean_tapes = setup.plan.lean_tapes,
          .clip_norm = setup.job.train.clip_norm,
          .loss_scale = 1.0 / (per_replica * position.replicas),
          .first_micro_batch = position.replica * per_replica,
          .owns_default_generator = setup.owns_process,
          .stop_requested = setup.stop_requested};
}

}  // namespace

struct Trainer::Impl {
  explicit Impl(const TrainSetup& given)
      : setup(given),
        program(plan::compile(given.plan)),
        position(Position::of(given.channel.rank(), given.job.pipeline.replicas.value(),
                              static_cast<int>(program.ranks.size()))),
        weights(open_weights()),
        stage(given.model, layers_of(program, position.pipeline_rank), given.job.train.seed,
              model::precision_of(given.job.train.precision), given.place.device(),
              my_away() > Bytes(0) || has_shards() ? Stage::Masters::kDrawnAgain
                                                   : Stage::Masters::kDevice,
              weights.get()),
        reducer(given.channel, position, stage,
                has_shards() ? Reducer::Updates::kDivided : Reducer::Updates::kEverywhere),
        boundary(given.channel, position.pipeline_group(), program.rank_of_layer,
                 given.place.device()),
        losses(given.channel),
        feeds(given.data, my_actions(), position.replica * config::micro_batches(given.job),
              given.job.train.steps, /*loads_ahead=*/!given.place.device().is_cpu()),
        recorder(position.pipeline_rank, given.memory) {
    ensure(!has_shards() || setup.plan.optimizer_shards == position.replicas,
           "a shard of the optimizer's state for every replica");
    open_outer_tier();
    static_bytes = live_between_rounds();
    if (weights) static_bytes += weights->window();
    static_bytes += plan::update_windows(setup.plan)[index_of_rank()];
    state.emplace(SavedState::Parts{given.channel, position, stage, *optimizer, reducer, losses},
                  setup.checkpoints);
    executor.emplace(
        Executor::Parts{stage, boundary, reducer, *optimizer, copies.get(), given.place},
        executor_options(given, position));
    if (setup.data.validation_micro_batches > 0) {
      evaluation = plan::compile_forwards(setup.plan, setup.data.validation_micro_batches);
    }
    ensure(setup.channel.size() == position.replicas * position.stages,
           "as many ranks as replicas x stages");
    begin();
  }

  const std::vector<program::Action>& my_actions() const { return program.ranks[index_of_rank()]; }
  std::size_t index_of_rank() const { return static_cast<std::size_t>(position.pipeline_rank); }

  /// Of the optimiser's state of this rank, what the plan has in the outer tier.
  Bytes my_away() const;
  /// Whether replicas divide the optimiser's state.
  bool has_shards() const { return setup.plan.optimizer_shards > 1; }
  /// Every rank; null on those that stream none.
  std::unique_ptr<StreamedWeights> open_weights() const;
  /// Makes the optimiser, and copies where there are some. A large outer tier takes its time to be
  /// pinned.
  void open_outer_tier();
  /// Every rank: what the device holds while none takes or frees anything, for several ranks may
  /// share one.
  Bytes live_between_rounds() const;
  /// Where values are not those that were drawn.
  void begin();
  void train_step(std::int64_t step);
  void report(Observer* observer);
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
  std::int64_t tokens = 0;  ///< of these steps
  std::int64_t steps_done = 0;
  std::set<std::string> as_begun;  ///< as in SavedState::Restored
  std::optional<double> validation_loss;
};

Trainer::Trainer(const TrainSetup& setup) {
  at::set_num_threads(setup.threads);
  const auto account = setup.memory.enter();
  impl_ = std::make_unique<Impl>(setup);
}

Trainer::~Trainer() = default;

Stage& Trainer::stage() {
  return impl_->stage;
}

Outcome Trainer::run(Observer* observer) {
  Impl& my = *impl_;
  const auto account = my.setup.memory.enter();
  const config::TrainSpec& train = my.setup.job.train;
  if (observer != nullptr) observer->started(my.setup.since_start());
  if (observer != nullptr && !my.as_begun.empty()) observer->read_again(my.as_begun);
  // Its last step was saved and told, its summary was not.
  if (my.steps_done == train.steps && my.evaluation) my.validate(nullptr);
  while (my.steps_done < train.steps) {
    my.train_step(my.steps_done++);
    const bool validates = my.evaluation && my.is_due(train.validate_every);
    const bool saves = my.setup.checkpoints.every > 0 && my.is_due(my.setup.checkpoints.every);
    const bool reports = validates || saves || my.is_due(my.setup.report_every);
    if (reports) my.report(observer);
    const bool stops = reports && my.is_asked_to_stop() && my.steps_done < train.steps;
    if (validates || saves || stops || my.steps_done == train.steps) my.executor->finish_updates();
    if (validates) my.validate(observer);
    if (reports) my.publish_written(observer);
    if (saves || stops) my.save(observer, stops);
    if (stops)
      throw Interrupted(concat("stopped on request after step ", my.steps_done,
                               ", which was saved: the same command goes on from there"));
  }
  my.boundary.flush();
  return my.outcome();
}

Bytes Trainer::Impl::my_away() const {
  return plan::optimizer_away(setup.plan)[static_cast<std::size_t>(position.pipeline_rank)];
}

std::unique_ptr<StreamedWeights> Trainer::Impl::open_weights() const {
  const std::vector<std::vector<int>> streamed = plan::streamed_layers(setup.plan);
  if (std::all_of(streamed.begin(), streamed.end(),
                  [](const auto& of_rank) { return of_rank.empty(); }))
    return nullptr;
  std::unique_ptr<StreamedWeights> opened;
  const auto open = [&] {
    const std::vector<int>& mine = streamed[index_of_rank()];
    if (mine.empty()) return;
    ensure(bool(setup.make_weight_copies), "a plan that streams weights has a way to do so");
    opened = std::make_unique<StreamedWeights>(
        StreamedWeights::Layers{.numbers = mine,
                                .at_once = setup.plan.weights_at_once,
                                .has_replicas = position.replicas > 1},
        setup.make_weight_copies());
  };
  comm::work_beside_rounds(setup.channel, open, "opening of the outer tier for weights");
  return opened;
}

void Trainer::Impl::open_outer_tier() {
  const config::OptimizerSpec& spec = setup.job.train.optimizer;
  StateLayout layout = lay_out_state(spec, stage.parameters(), my_away(),
                                     setup.optimizer_parts.size, reducer.shards().mine());
  layout.parts_at_once = setup.optimizer_parts.at_once;
  std::unique_ptr<tier::ValueCopies> of_optimizer;
  const auto open = [&] {
    if (simulate::has_copies(my_actions())) {
      ensure(bool(setup.make_copies), "a plan that moves values has a way to do so");
      copies = setup.make_copies();
    }
    if (!layout.parts.empty()) {
      ensure(bool(setup.make_optimizer_copies), "a plan that moves state has a way to do so");
      of_optimizer = setup.make_optimizer_copies(layout.room());
    }
  };
  comm::work_beside_rounds(setup.channel, open, "opening of the outer tier");
  optimizer.emplace(spec, stage, std::move(layout), std::move(of_optimizer));
}

Bytes Trainer::Impl::live_between_rounds() const {
  const std::vector<int> all = comm::everyone(setup.channel);
  comm::barrier(setup.channel, all, "stages that are built");
  const Bytes live = setup.memory.live();
  comm::barrier(setup.channel, all, "stages that are built");
  return live;
}

void Trainer::Impl::begin() {
  if (setup.checkpoints.resume) {
    SavedState::Restored restored = state->restore(*setup.checkpoints.resume, setup.job);
    steps_done = restored.steps;
    as_begun = std::move(restored.as_begun);
  } else if (!setup.job.weights.empty()) {
    begin_with_weights(setup.channel, stage, *optimizer, setup.job);
    optimizer->resume_after(0);
  }
}

void Trainer::Impl::train_step(std::int64_t step) {
  const auto begin = Clock::now();
  const Feed feed = feeds.of_step(step);
  const double rate = learning_rate(setup.job.train, step);
  const RunResult result =
      executor->train(my_actions(), feed, step, rate, setup.copy_points, &recorder);
  losses.add(result.losses);
  samples.add(recorder.take());
  times.push_back(result.times);
  const Seconds time = to_seconds(Clock::now() - begin);
  step_seconds.push_back(time.count());
  const std::int64_t of_step = setup.data.tokens(step);
  tokens += of_step;
  unreported.push_back({.step = step + 1,
                        .loss = 0,
                        .learning_rate = rate,
                        .gradient_norm = result.gradient_norm,
                        .time = time,
                        .tokens = of_step});
}

void Trainer::Impl::report(Observer* observer) {
  const std::vector<double> means = losses.exchange();
  ensure(means.size() == unreported.size(), "a loss for every step");
  for (std::size_t i = 0; i < means.size(); ++i) {
    unreported[i].loss = means[i];
    if (observer != nullptr) observer->step(unreported[i]);
  }
  if (observer != nullptr) observer->interval_ended();
  if (const auto lost = first_lost(unreported)) {
    finish_save(observer);
    refuse_to_go_on(*lost);
  }
  unreported.clear();
}

void Trainer::Impl::validate(Observer* observer) {
  const Feed feed = feeds.of_validation(position.replica * setup.data.validation_micro_batches);
  LossLog log(setup.channel);
  log.add(executor->evaluate(evaluation->ranks[index_of_rank()], feed).losses);
  validation_loss = log.exchange().at(0);
  if (observer != nullptr) observer->validation(steps_done, *validation_loss);
  if (std::isfinite(*validation_loss)) return;
  finish_save(observer);
  refuse_to_go_on(concat("the validation loss after step ", steps_done));
}

void Trainer::Impl::save(Observer* observer, bool stops) {
  using Writing = SavedState::Writing;
  finish_save(observer);
  const bool goes_on = !stops && steps_done < setup.job.train.steps;
  state->begin_save(steps_done, setup.checkpoints.in_background && goes_on ? Writing::kBesideSteps
                                                                           : Writing::kAtOnce);
  if (!setup.checkpoints.in_background || !goes_on) finish_save(observer);
}

void Trainer::Impl::finish_save(Observer* observer) {
  if (!state->is_saving()) return;
  const SavedCheckpoint saved = state->finish_save([observer] {
    if (observer != nullptr) observer->saving();
  });
  if (observer != nullptr) observer->saved(saved);
}

void Trainer::Impl::publish_written(Observer* observer) {
  if (state->is_saving() && state->is_written()) finish_save(observer);
}

bool Trainer::Impl::is_asked_to_stop() {
  if (!setup.save_and_stop_requested) return false;
  return comm::any_of(setup.channel, setup.save_and_stop_requested(), "requests to stop");
}

Outcome Trainer::Impl::outcome() {
  const ParametersDigest parameters =
      parameters_digest(setup.channel, position, stage, reducer, *optimizer);
  refuse_lost_values(setup.channel,
                     parameters.lost.empty()
                         ? state->lost_buffer(steps_done)
                         : lost_value(parameters.lost, steps_done, parameters.found));
  const auto require_same = [&](const std::vector<int>& group, const std::string& mine) {
    for (const std::string& other :
         comm::all_gather(setup.channel, group, mine, "digests of the replicas"))
      if (other != mine)
        throw Error(
            "the replicas' parameters differ at the end of the run: a defect of Trireme or of this "
            "machine");
  };
  require_same(comm::everyone(setup.channel), parameters.whole);
  // What shards make up is the same by its making; what each replica computes with is its own.
  if (has_shards()) require_same(position.replica_group(), weights_digest(stage));
  const std::optional<TypicalSteps> typical =
      typical_steps(setup.channel, step_seconds, samples.places());
  const Mean train_loss = mean_of_last(losses.history().means, setup.job.report.log_every);
  Outcome outcome{.steps = steps_done,
                  .train_loss = train_loss.value,
                  .train_loss_steps = train_loss.count,
                  .validation_loss = validation_loss,
                  .step = typical ? Seconds(step_seconds[typical->median]) : Seconds(0),
                  .parameters_digest = parameters.whole,
                  .losses_digest = losses.digest(),
                  .ranks = gather_figures(typical ? times[typical->median] : Times{})};
  if (typical) {
    const auto made = static_cast<std::int64_t>(step_seconds.size());
    outcome.recorded_number = steps_done - made + static_cast<std::int64_t>(typical->recorded) + 1;
    if (position.replica == 0)
      outcome.recorded_step =
          gather_step(setup.channel, position.pipeline_group(), samples.at(typical->recorded));
    outcome.tokens_per_s =
        static_cast<double>(tokens) / static_cast<double>(made) / outcome.step.count();
  }
  outcome.bubble = bubble_of(outcome.ranks, outcome.step);
  return outcome;
}

std::vector<RankFigures> Trainer::Impl::gather_figures(const Times& of_median_step) {
  const RankFigures mine{.rank = setup.channel.rank(),
                         .budget = setup.memory.has_budget() ? setup.memory.budget() : Bytes(0),
                         .peak = setup.memory.peak(),
                         .static_bytes = static_bytes,
                         .optimizer_away = optimizer->away_bytes(),
                         .weights_away = weights ? weights->bytes() : Bytes(0),
                         .process = most_resident(),
                         .reserves = setup.reserves ? setup.reserves() : DeviceReserves{},
                         .times = of_median_step};
  std::vector<RankFigures> figures;
  for (const auto& of_rank :
       comm::all_gather(setup.channel, comm::everyone(setup.channel), std::vector{mine}, "figures"))
    figures.push_back(of_rank.at(0));
  return figures;
}

}  // namespace trireme::runtime
