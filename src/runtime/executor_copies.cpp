// What the executor has copied to the outer tier and back, beside its actions.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/needs.h"
#include "trireme/runtime/executor.h"
#include "trireme/tier/memory.h"

#include <deque>

namespace trireme::runtime {

void Executor::release_copies(std::size_t action) {
  if (points_ == nullptr || action == points_->size()) return;
  const Stopwatch watch(clock_, result_.times.copy_wait);
  for (int i = 0; i < (*points_)[action].releases; ++i) values_.left(parts_.copies->release_next());
}

void Executor::begin_copies(std::size_t action) {
  if (points_ == nullptr) return;
  const Stopwatch watch(clock_, result_.times.copy_wait);
  const tier::TagScope tag(tier::Tag::kKept);
  for (int i = 0; i < (*points_)[action].begins; ++i) values_.returned(parts_.copies->begin_next());
}

void Executor::bring_state() {
  const Stopwatch watch(clock_, result_.times.copy_wait);
  parts_.optimizer.bring_state();
}

void Executor::await_values(const Action& action) {
  if (parts_.copies == nullptr || points_ == nullptr) return;
  const Stopwatch watch(clock_, result_.times.copy_wait);
  program::for_each_need(action, [&](const program::ValueKey& key) { parts_.copies->await(key); });
}

void Executor::await_weights(std::size_t index) {
  if (!weights_.needs(index)) return;
  const Stopwatch watch(clock_, result_.times.copy_wait);
  weights_.await(index);
}

void Executor::end_weights(std::size_t index) {
  if (!weights_.needs(index)) return;
  const Stopwatch watch(clock_, result_.times.copy_wait);
  weights_.end(index);
}

void Executor::finish_copies() {
  Seconds& busy = result_.times.copy;
  const auto add = [&](const std::deque<tier::CopyLane::Span>& of_lane) {
    for (const auto& span : of_lane) busy += to_seconds(span.end - span.begin);
  };
  Recorder::Totals totals;
  if (StreamedWeights* const weights = parts_.stage.weights()) {
    const tier::ValueCopies::Spans spans = weights->settle();
    add(spans.in);
    add(spans.out);
    if (recorder_ != nullptr) recorder_->copies(simulate::Lane::kWeights, spans.in);
    if (recorder_ != nullptr) recorder_->copies(simulate::Lane::kWeightsOut, spans.out);
    totals.outer_peak = weights->bytes();
  }
  if (parts_.copies != nullptr) {
    parts_.copies->drain();
    const tier::ValueCopies::Spans spans = parts_.copies->take_spans();
    add(spans.out);
    add(spans.in);
    totals.moved = parts_.copies->take_moved();
    totals.outer_peak += parts_.copies->outer_peak();
    if (recorder_ != nullptr) recorder_->copies(simulate::Lane::kOut, spans.out);
    if (recorder_ != nullptr) recorder_->copies(simulate::Lane::kIn, spans.in);
  }
  totals.copy_wait = result_.times.copy_wait;
  if (recorder_ != nullptr) recorder_->ended(totals);
}

}  // namespace trireme::runtime
