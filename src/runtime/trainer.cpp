// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/trainer.h"

#include "saved/initial_weights.h"
#include "saved/step_history.h"
#include "trainer_impl.h"

#include "trireme/comm/heartbeat.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/graph/lower.h"
#include "trireme/program/generate.h"
#include "trireme/simulate/place_copies.h"

#include <ATen/Parallel.h>

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

/// The layers of a rank; of a graph, whose program has nodes for layers, all.
std::vector<int> layers_of(const TrainSetup& setup, int rank) {
  std::vector<int> layers;
  for (int i = 1; i <= setup.model.length(); ++i) {
    if (setup.program.rank_of_layer[static_cast<std::size_t>(i)] == rank) layers.push_back(i);
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

Trainer::Impl::Impl(const TrainSetup& given)
    : setup(given),
      program(given.program),
      position(Position::of(given.channel.rank(), given.job.pipeline.replicas.value(),
                            static_cast<int>(program.ranks.size()))),
      weights(open_weights()),
      stage(given.model, layers_of(given, position.pipeline_rank), given.job.train.seed,
            model::precision_of(given.job.train.precision), given.place.device(),
            my_offloaded_state() > Bytes(0) || has_shards() ? Stage::Masters::kDrawnAgain
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
  open_offload_tier();
  static_bytes = live_between_rounds();
  if (weights) static_bytes += weights->window();
  static_bytes += plan::update_windows(setup.plan)[index_of_rank()];
  state.emplace(SavedState::Parts{given.channel, position, stage, *optimizer, reducer, losses},
                setup.checkpoints);
  if (given.model.is_graph()) graph.emplace(given.model);
  executor.emplace(Executor::Parts{stage, boundary, reducer, *optimizer, copies.get(), given.place,
                                   graph ? &*graph : nullptr},
                   executor_options(given, position));
  if (setup.data.validation_micro_batches > 0) evaluation = compiled_evaluation();
  ensure(setup.channel.size() == position.replicas * position.stages,
         "as many ranks as replicas x stages");
  begin();
  count = counted();
}

Trainer::Trainer(const TrainSetup& setup) {
  at::set_num_threads(setup.threads);
  const auto account = setup.memory.enter();
  impl_ = std::make_unique<Impl>(setup);
}

Trainer::~Trainer() = default;

Stage& Trainer::stage() {
  return impl_->stage;
}

FinishedRun Trainer::run(Observer* observer) {
  Impl& my = *impl_;
  const auto account = my.setup.memory.enter();
  if (observer != nullptr) observer->started(my.setup.since_start());
  if (observer != nullptr && !my.as_begun.empty()) observer->read_again(my.as_begun);
  try {
    my.train(observer);
    return my.finished();
  } catch (...) {
    my.tell_rest(observer);
    throw;
  }
}

record::ParameterCount Trainer::parameters() const {
  return impl_->count;
}

std::int64_t Trainer::step() const {
  return impl_->steps_done;
}

void Trainer::Impl::train(Observer* observer) {
  const config::TrainSpec& spec = setup.job.train;
  // Its last step was saved and reported, its summary was not.
  if (steps_done == spec.steps && evaluation) validate(nullptr);
  while (steps_done < spec.steps) {
    train_step(steps_done++);
    const bool validates = evaluation && is_due(spec.validate_every);
    const bool saves = setup.checkpoints.every > 0 && is_due(setup.checkpoints.every);
    const bool reports = validates || saves || is_due(setup.report_every);
    if (reports) report(observer);
    const bool stops = reports && is_asked_to_stop() && steps_done < spec.steps;
    if (validates || saves || stops || steps_done == spec.steps) executor->finish_updates();
    if (validates) validate(observer);
    if (reports) publish_written(observer);
    if (saves || stops) save(observer, stops);
    if (stops)
      throw Interrupted(concat("stopped on request after step ", steps_done,
                               ", which was saved: the same command resumes from there"));
  }
  boundary.flush();
}

program::Program Trainer::Impl::compiled_evaluation() const {
  const int micro_batches = setup.data.validation_micro_batches;
  if (graph) return graph::forwards(setup.model.inputs, micro_batches);
  return plan::compile_forwards(
      setup.plan, micro_batches,
      weights ? weights->streaming(program.layers) : program::Streaming{});
}

Bytes Trainer::Impl::my_offloaded_state() const {
  return plan::offloaded_optimizer(setup.plan)[static_cast<std::size_t>(position.pipeline_rank)];
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
  comm::run_with_heartbeat(setup.channel, open, "opening of the offload tier for weights");
  return opened;
}

void Trainer::Impl::open_offload_tier() {
  const config::OptimizerSpec& spec = setup.job.train.optimizer;
  StateLayout layout = lay_out_state(spec, stage.parameters(), my_offloaded_state(),
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
  comm::run_with_heartbeat(setup.channel, open, "opening of the offload tier");
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
  const std::optional<Joules> before = counted_energy();
  const auto begin = Clock::now();
  const Feed feed = feeds.of_step(step);
  const double rate = learning_rate(setup.job.train, step);
  const RunResult result = executor->train(my_actions(), feed, step, rate, &recorder);
  losses.add(result.losses);
  samples.add(recorder.take());
  times.push_back(result.times);
  const Seconds time = to_seconds(Clock::now() - begin);
  step_seconds.push_back(time.count());
  const std::optional<Joules> after = counted_energy();
  if (before && after && energy)
    *energy += *after - *before;
  else
    energy.reset();
  const std::int64_t of_step = setup.data.tokens(step);
  tokens += of_step;
  unreported.push_back({.step = step + 1,
                        .loss = 0,
                        .learning_rate = rate,
                        .gradient_norm = result.gradient_norm,
                        .time = time,
                        .tokens = of_step});
}

std::optional<Joules> Trainer::Impl::counted_energy() {
  const auto reading = setup.meter != nullptr ? setup.meter->read() : std::nullopt;
  return reading ? std::optional(reading->taken) : std::nullopt;
}

void Trainer::Impl::report(Observer* observer) {
  std::vector<record::StepMetrics> steps = std::exchange(unreported, {});
  const std::vector<double> means = losses.exchange();
  ensure(means.size() == steps.size(), "a loss for every step");
  for (std::size_t i = 0; i < means.size(); ++i) {
    steps[i].loss = means[i];
    if (observer != nullptr) observer->step(steps[i]);
  }
  if (observer != nullptr) observer->interval_ended();
  if (const auto lost = first_lost(steps)) {
    finish_save(observer);
    refuse_to_go_on(*lost);
  }
}

void Trainer::Impl::tell_rest(Observer* observer) noexcept {
  if (observer == nullptr || setup.channel.size() > 1 || unreported.empty()) return;
  try {
    report(observer);
  } catch (const std::exception&) {
    // The error that ended the run matters more; the observer has been told of values that are not
    // finite.
  }
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

}  // namespace trireme::runtime
