// The executor's end of a step: gradients are reduced and clipped, weights are updated; also while
// passes run (overlapped optimizer step).
// SPDX-License-Identifier: Apache-2.0
#include "step/executor.h"
#include "update/clip.h"

#include <utility>

namespace trireme::runtime {

using program::Action;

void Executor::reduce(int layer) {
  const Stopwatch watch(clock_, run_.result.times.wait);
  end_micro_batch();
  sums_of(layer).complete();
  if (layer > 0) return parts_.reducer.reduce(layer);
  parts_.reducer.reduce();
}

void Executor::note_gradients(int layer) {
  if (parts_.stage.streamed_gradients(layer) != nullptr)
    parts_.stage.weights()->used(layer, program::WeightsChange::kGradients);
}

void Executor::note_norm(int layer) {
  if (options_.clip_norm <= 0) return;
  sums_of(layer).complete();
  parts_.reducer.norm().note(layer);
}

void Executor::clip() {
  if (options_.clip_norm <= 0) return;
  const Stopwatch watch(clock_, run_.result.times.wait);
  run_.divisor = clip_divisor(parts_.reducer, parts_.stage, options_.clip_norm, norm_);
}

void Executor::step(int layer) {
  const Stopwatch watch(clock_, run_.result.times.update);
  const Waits waits(clock_, run_.result.times.update_wait, run_.result.times.update);
  if (layer == 0) {
    parts_.optimizer.step(run_.rate, std::exchange(run_.divisor, {}), waits);
  } else {
    sums_of(layer).complete();
    parts_.optimizer.step_layer(layer, waits);
    parts_.stage.weights()->used(layer, program::WeightsChange::kUpdate);
  }
  share(layer);
  sums_of(layer).begin_anew();
}

void Executor::update(const Action& action) {
  const bool is_behind = run_.updates.place == program::UpdatePlace::kInBackward;
  // Nothing to do before the first step, or if finish_updates() has done it.
  if (!is_behind && !parts_.optimizer.pending().contains(action.layer)) return;
  const Stopwatch watch(clock_, run_.result.times.update);
  const int parts = run_.updates.parts(action.layer);
  const bool is_last = action.micro_batch + 1 == parts;
  sums_of(action.layer).complete();
  parts_.optimizer.update(action.layer, action.micro_batch, parts,
                          {clock_, run_.result.times.update_wait, run_.result.times.update});
  parts_.stage.weights()->used(action.layer, is_last ? program::WeightsChange::kUpdate
                                                     : program::WeightsChange::kUpdateInPart);
  if (!is_last) return;
  share(action.layer);
  sums_of(action.layer).begin_anew();
}

void Executor::share(int layer) {
  const Stopwatch watch(clock_, run_.result.times.wait, &run_.result.times.update);
  parts_.reducer.shards().share(layer);
}

model::GradientSums& Executor::sums_of(int layer) {
  return layer == 0 ? parts_.stage.gradients() : *parts_.stage.streamed_gradients(layer);
}

}  // namespace trireme::runtime
