// The executor's copies to and from the offload tier, which run while actions do.
// SPDX-License-Identifier: Apache-2.0
#include "step/executor.h"

#include "trireme/core/error.h"
#include "trireme/program/needs.h"
#include "trireme/program/weights.h"
#include "trireme/tier/memory.h"

#include <deque>

namespace trireme::runtime {
namespace {

using program::Action;
using program::Op;

Seconds since(std::chrono::steady_clock::time_point begin) {
  return to_seconds(std::chrono::steady_clock::now() - begin);
}

}  // namespace

void Executor::bring_weights(const std::vector<Action>& actions) {
  StreamedWeights* const weights = parts_.stage.weights();
  if (weights == nullptr) return;
  // Actions free without a copy out what they have not changed: the run before may have.
  if (actions != last_actions_) weights->close();
  last_actions_ = actions;
  weights->settle();  // copies between two runs are not counted
  weights->take_moved();
  for (const Action& action : weights->moves_to(program::held_at_begin(actions))) perform(action);
}

void Executor::move(const Action& action) {
  const Stopwatch watch(clock_, run_.result.times.copy_wait);
  const auto copies = [&]() -> tier::ValueCopies& {
    ensure(parts_.copies != nullptr, "a program that moves values has lanes to move them on");
    return *parts_.copies;
  };
  const auto weights = [&]() -> StreamedWeights& {
    ensure(parts_.stage.weights() != nullptr,
           "a program that moves weights is of a stage that does");
    return *parts_.stage.weights();
  };
  const program::ValueKey value = program::moved_value(action);
  if (program::moves_weights(action.op)) return weights().move(action);
  switch (action.op) {
    case Op::kPrefetch:
    case Op::kPrefetchTape:
      return copies().prefetch(value);
    case Op::kRelease:
    case Op::kReleaseTape:
      copies().release(value);
      return run_.values.left(value);
    case Op::kFree:
      copies().let_go(value);
      return run_.values.left(value);
    case Op::kCopyIn:
    case Op::kCopyInTape: {
      const tier::TagScope tag(tier::Tag::kKept);
      ensure(copies().begin_next() == value, "copies are placed in the order of the program");
      return run_.values.returned(value);
    }
    case Op::kAwaitCopy:
      return copies().await_copy(value);
    case Op::kAwait:
    case Op::kAwaitTape:
      return copies().await(value);
    case Op::kAwaitWeights:
      return weights().await(action.layer, false);
    case Op::kAwaitGradients:
      return weights().await(action.layer, true);
    case Op::kStateIn:
      return parts_.optimizer.bring_state();
    case Op::kAwaitState:
      return parts_.optimizer.await_state();
    default:
      ensure(false, "an action that moves nothing is performed by perform()");
  }
}

void Executor::finish_copies() {
  record::StepTimes& times = run_.result.times;
  const auto asked = std::chrono::steady_clock::now();
  const MovedState::Moved state = parts_.optimizer.take_moved();
  Recording::Totals totals{.state_out = state.out, .state_in = state.in, .state_moved = state.size};
  times.copy += state.out + state.in;
  const auto add = [&](simulate::Lane lane, const std::deque<tier::CopyLane::Span>& spans) {
    for (const tier::CopyLane::Span& span : spans) times.copy += span.time();
    if (run_.recorder != nullptr) run_.recorder->copies(lane, spans);
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
  if (run_.recorder == nullptr) return;
  totals.offloaded.state = parts_.optimizer.offloaded_bytes();
  totals.busy = times.busy();
  totals.recompute = times.recompute;
  totals.wait_for_ranks = times.wait;
  totals.wait_for_copies = times.copy_wait;
  run_.recorder->ended(totals);
}

}  // namespace trireme::runtime
