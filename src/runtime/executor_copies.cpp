// The executor's copies to and from the offload tier, which run while actions do.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/needs.h"
#include "trireme/runtime/executor.h"
#include "trireme/tier/memory.h"

#include <deque>

namespace trireme::runtime {
namespace {

Seconds since(std::chrono::steady_clock::time_point begin) {
  return to_seconds(std::chrono::steady_clock::now() - begin);
}

}  // namespace

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
  Times& times = result_.times;
  const auto asked = std::chrono::steady_clock::now();
  const MovedState::Moved state = parts_.optimizer.take_moved();
  Recording::Totals totals{.state_out = state.out, .state_in = state.in, .state_moved = state.size};
  times.copy += state.out + state.in;
  const auto add = [&](simulate::Lane lane, const std::deque<tier::CopyLane::Span>& spans) {
    for (const tier::CopyLane::Span& span : spans) times.copy += span.time();
    if (recorder_ != nullptr) recorder_->copies(lane, spans);
  };
  if (StreamedWeights* const weights = parts_.stage.weights()) {
    const tier::ValueCopies::Spans spans = weights->settle();
    add(simulate::Lane::kWeights, spans.in);
    add(simulate::Lane::kWeightsOut, spans.out);
    totals.weights_moved = weights->take_moved();
    totals.offloaded.weights = weights->bytes();
  }
  if (parts_.copies != nullptr) {
    parts_.copies->drain();
    const tier::ValueCopies::Spans spans = parts_.copies->take_spans();
    add(simulate::Lane::kOut, spans.out);
    add(simulate::Lane::kIn, spans.in);
    totals.moved = parts_.copies->take_moved();
    totals.offloaded.values = parts_.copies->offload_peak();
  }
  // A run ends when all copies have ended.
  times.copy_wait += times.update_wait + since(asked);
  if (recorder_ == nullptr) return;
  totals.offloaded.state = parts_.optimizer.away_bytes();
  totals.busy = times.compute();
  totals.recompute = times.recompute;
  totals.wait_for_ranks = times.wait;
  totals.wait_for_copies = times.copy_wait;
  recorder_->ended(totals);
}

}  // namespace trireme::runtime
