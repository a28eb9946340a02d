// The rules of the memory model, one function per operation.
// SPDX-License-Identifier: Apache-2.0
#include "ledger_state.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>

namespace trireme::simulate {

using program::Action;
using program::Op;

namespace {

Ledger::Outcome refuse(std::string reason) {
  return {std::move(reason), {}};
}

std::string output_name(int i) {
  return concat("x[", i, "]");
}

Ledger::Scope with_last_layer(Ledger::Scope scope, const chain::Chain& chain) {
  if (scope.last_layer == 0) scope.last_layer = chain.length();
  return scope;
}

}  // namespace

Ledger::State::State(const chain::Chain& of, Scope within)
    : chain(of),
      scope(with_last_layer(within, of)),
      cells(scope.first_layer - 1, scope.last_layer) {
  ensure(1 <= scope.first_layer && scope.first_layer <= scope.last_layer &&
             scope.last_layer <= chain.length(),
         "a ledger's layers are of its chain");
}

Ledger::Outcome Ledger::State::run(const Action& action) {
  const int i = action.layer;
  switch (action.op) {
    case Op::kForward:
      return forward(i, true);
    case Op::kForwardKeep:
      return forward(i, false);
    case Op::kForwardTape:
      return forward_tape(i);
    case Op::kRetape:
      return retape(i);
    case Op::kBackward:
      return backward(i);
    case Op::kBackwardInput:
      return backward_input(i);
    case Op::kBackwardWeights:
      return backward_weights(i);
    case Op::kDrop:
      return drop(i);
    case Op::kOffload:
      return offload(i);
    case Op::kPrefetch:
      return prefetch(i);
    case Op::kOffloadTape:
      return offload_tape(i);
    case Op::kPrefetchTape:
      return prefetch_tape(i);
    case Op::kLoadInput:
    case Op::kReceiveInput:
      return take_output(i);
    case Op::kSendOutput:
      return give_output(i);
    case Op::kReceiveGradient:
      return take_gradient(i);
    case Op::kSendGradient:
      return give_gradient(i);
    case Op::kLoadTarget:
      return load_target(i);
    case Op::kReadLoss:
      return read_loss(i);
    case Op::kCompute:
    case Op::kGradient:
      return refuse("only programs of graphs have it");
    case Op::kUpdate:
    case Op::kReduceGradients:
    case Op::kClip:
    case Op::kStep:
    case Op::kNoteNorm:
    case Op::kRelease:
    case Op::kReleaseTape:
    case Op::kCopyIn:
    case Op::kCopyInTape:
    case Op::kAwait:
    case Op::kAwaitTape:
    case Op::kAwaitCopy:
    case Op::kFree:
    case Op::kWeightsIn:
    case Op::kWeightsOut:
    case Op::kWeightsRelease:
    case Op::kWeightsFree:
    case Op::kGradientsIn:
    case Op::kGradientsOut:
    case Op::kGradientsRelease:
    case Op::kGradientsFree:
    case Op::kGradientsNew:
    case Op::kAwaitWeights:
    case Op::kAwaitGradients:
    case Op::kStateIn:
    case Op::kAwaitState:
      break;  // of no value of a pass
  }
  return settle(held, held);
}

Ledger::Outcome Ledger::State::forward(int i, bool drops_input) {
  if (auto fault = refuse_forward(i)) return *fault;
  const Bytes made = held + chain.output(i);
  const Bytes freed = drops_input ? standalone(i - 1) : Bytes(0);
  cells.set(i, Mark::kOutput);
  if (drops_input) cells.clear(i - 1, Mark::kOutput);
  return settle(made + chain.layer(i).forward_transient, made - freed);
}

Ledger::Outcome Ledger::State::forward_tape(int i) {
  if (auto fault = refuse_forward(i)) return *fault;
  if (has(i, Mark::kTapeOffloaded))
    return refuse(concat("tape ", i, " is offloaded: prefetch it instead"));
  const Bytes made = held + chain.layer(i).tape;
  cells.set(i, Mark::kTape);
  return settle(made + chain.layer(i).tape_transient, made);
}

Ledger::Outcome Ledger::State::retape(int i) {
  if (auto fault = refuse_forward(i)) return *fault;
  if (has(i, Mark::kTapeOffloaded))
    return refuse(concat("tape ", i, " is offloaded: prefetch it instead"));
  const chain::Retape retape = chain.layer(i).again();
  const Bytes made = held + retape.tape;
  cells.set(i, Mark::kBareTape);
  return settle(made + retape.tape_transient, made);
}

Ledger::Outcome Ledger::State::backward(int i) {
  if (auto fault = refuse_backward(i)) return *fault;
  const chain::LayerCost& layer = chain.layer(i);
  const Bytes during = held + (has(i, Mark::kBareTape) ? layer.again().backward_transient
                                                       : layer.backward_transient);
  const Bytes after = pass_backward(i);
  // A chain measured with a transient below its own input gradient still needs that gradient.
  return settle(std::max(during, after), after);
}

Ledger::Outcome Ledger::State::backward_input(int i) {
  if (auto fault = refuse_backward(i)) return *fault;
  if (has(i, Mark::kPending))
    return refuse(concat("the weight gradients of layer ", i, " are pending already"));
  const chain::SplitBackward parts = chain.layer(i).in_parts();
  // A tape without x[i] changes the transient by as much as that of a whole backward.
  const chain::LayerCost& layer = chain.layer(i);
  const Bytes more = has(i, Mark::kBareTape)
                         ? layer.again().backward_transient - layer.backward_transient
                         : Bytes(0);
  const Bytes during = held + parts.input_transient + more;
  const Bytes after = pass_backward(i) + parts.pending;
  cells.set(i, Mark::kPending);
  return settle(std::max(during, after), after);
}

Ledger::Outcome Ledger::State::backward_weights(int i) {
  if (!has(i, Mark::kPending))
    return refuse(concat("no weight gradients of layer ", i, " are pending"));
  const chain::SplitBackward parts = chain.layer(i).in_parts();
  cells.clear(i, Mark::kPending);
  return settle(held + parts.weights_transient, held - parts.pending);
}

Ledger::Outcome Ledger::State::drop(int i) {
  if (!has(i, Mark::kOutput)) {
    if (has(i, Mark::kTape)) return refuse(concat("x[", i, "] is part of tape ", i));
    return refuse_missing(i);
  }
  cells.clear(i, Mark::kOutput);
  return settle(held, held - chain.output(i));
}

Ledger::Outcome Ledger::State::offload(int i) {
  if (!has(i, Mark::kOutput)) {
    if (has(i, Mark::kTape))
      return refuse(concat("x[", i, "] is part of tape ", i, ": offload_tape moves it"));
    return refuse_missing(i);
  }
  cells.clear(i, Mark::kOutput);
  cells.set(i, Mark::kOutputOffloaded);
  offloaded += chain.output(i);
  return settle(held, held - chain.output(i));
}

Ledger::Outcome Ledger::State::prefetch(int i) {
  if (!has(i, Mark::kOutputOffloaded)) return refuse(concat("x[", i, "] is not offloaded"));
  if (has(i, Mark::kTape)) return refuse(concat("x[", i, "] is held already, inside tape ", i));
  cells.clear(i, Mark::kOutputOffloaded);
  cells.set(i, Mark::kOutput);
  offloaded -= chain.output(i);
  return settle(held + chain.output(i), held + chain.output(i));
}

Ledger::Outcome Ledger::State::offload_tape(int i) {
  if (has(i, Mark::kTapeOffloaded)) return refuse(concat("tape ", i, " is offloaded already"));
  if (has(i, Mark::kBareTape))
    return refuse(concat("tape ", i, " was recomputed for its backward and cannot be offloaded"));
  if (!has(i, Mark::kTape)) return refuse(concat("tape ", i, " is not held"));
  if (i < scope.last_layer && has(i + 1, Mark::kPending))
    return refuse(concat("x[", i, "] in tape ", i,
                         " may be an operand of the pending weight gradients of layer ", i + 1));
  const Bytes size = chain.layer(i).tape_moves();
  cells.clear(i, Mark::kTape);
  cells.set(i, Mark::kTapeOffloaded);
  offloaded += size;
  return settle(held, held - size);
}

Ledger::Outcome Ledger::State::prefetch_tape(int i) {
  if (!has(i, Mark::kTapeOffloaded)) return refuse(concat("tape ", i, " is not offloaded"));
  if (has(i, Mark::kOutput))
    return refuse(concat("x[", i, "] is held by itself: with tape ", i, " it would be held twice"));
  const Bytes size = chain.layer(i).tape_moves();
  cells.clear(i, Mark::kTapeOffloaded);
  cells.set(i, Mark::kTape);
  offloaded -= size;
  return settle(held + size, held + size);
}

Ledger::Outcome Ledger::State::take_output(int i) {
  if (auto fault = refuse_second(i)) return *fault;
  cells.set(i, Mark::kOutput);
  return settle(held + chain.output(i), held + chain.output(i));
}

Ledger::Outcome Ledger::State::give_output(int i) {
  if (!output_available(i)) return refuse_missing(i);
  const Bytes after = held - standalone(i);
  cells.clear(i, Mark::kOutput);
  return settle(held, after);
}

Ledger::Outcome Ledger::State::take_gradient(int i) {
  if (has(i, Mark::kGradient)) return refuse(concat("the gradient of x[", i, "] is held already"));
  cells.set(i, Mark::kGradient);
  return settle(held + chain.output(i), held + chain.output(i));
}

Ledger::Outcome Ledger::State::give_gradient(int i) {
  if (!has(i, Mark::kGradient)) return refuse(concat("the gradient of x[", i, "] is not held"));
  cells.clear(i, Mark::kGradient);
  return settle(held, held - chain.output(i));
}

Ledger::Outcome Ledger::State::load_target(int i) {
  if (!is_last(i)) return refuse(concat("the loss belongs to layer ", chain.length()));
  if (has(i, Mark::kTarget)) return refuse("the target is loaded already");
  cells.set(i, Mark::kTarget);
  return settle(held, held);
}

Ledger::Outcome Ledger::State::read_loss(int i) {
  if (!is_last(i)) return refuse(concat("the loss belongs to layer ", chain.length()));
  if (!has(i, Mark::kTarget)) return refuse("the target is not loaded");
  if (!output_available(i)) return refuse_missing(i);
  if (has(i, Mark::kGradient)) return refuse("the loss was read already");
  Bytes after = held - standalone(i);
  cells.clear(i, Mark::kOutput);
  if (scope.trains) {
    cells.set(i, Mark::kGradient);
    after += chain.output(i);
  } else {
    cells.clear(i, Mark::kTarget);
  }
  return settle(std::max(held, after), after);
}

Ledger::Outcome Ledger::State::refuse_missing(int i) const {
  if (has(i, Mark::kOutputOffloaded)) return refuse(output_name(i) + " is offloaded");
  if (has(i, Mark::kTapeOffloaded))
    return refuse(concat("x[", i, "] is not held: tape ", i, " is offloaded"));
  if (has(i, Mark::kBareTape))
    return refuse(concat("x[", i, "] is not held: tape ", i, " was recomputed without it"));
  return refuse(output_name(i) + " is not held");
}

std::optional<Ledger::Outcome> Ledger::State::refuse_backward(int i) const {
  if (has(i, Mark::kTapeOffloaded)) return refuse(concat("tape ", i, " is offloaded"));
  if (!has_tape(i)) return refuse(concat("tape ", i, " is not held"));
  if (!has(i, Mark::kGradient)) return refuse(concat("the gradient of x[", i, "] is not held"));
  if (!output_available(i - 1)) return refuse_missing(i - 1);
  if (has(i - 1, Mark::kGradient))
    return refuse(concat("the gradient of x[", i - 1, "] is held already"));
  return std::nullopt;
}

Bytes Ledger::State::pass_backward(int i) {
  const bool bare = has(i, Mark::kBareTape);
  const chain::LayerCost& layer = chain.layer(i);
  Bytes after =
      held - (bare ? layer.again().tape : layer.tape) - chain.output(i) - standalone(i - 1);
  cells.clear(i, bare ? Mark::kBareTape : Mark::kTape);
  cells.clear(i, Mark::kGradient);
  cells.clear(i - 1, Mark::kOutput);
  if (is_last(i)) cells.clear(i, Mark::kTarget);
  if (i > 1) {
    cells.set(i - 1, Mark::kGradient);
    after += chain.output(i - 1);
  }
  return after;
}

std::optional<Ledger::Outcome> Ledger::State::refuse_forward(int i) const {
  if (!output_available(i - 1)) return refuse_missing(i - 1);
  if (is_last(i) && !has(i, Mark::kTarget)) return refuse("the target is not loaded");
  return refuse_second(i);
}

std::optional<Ledger::Outcome> Ledger::State::refuse_second(int i) const {
  if (has(i, Mark::kOutput)) return refuse(output_name(i) + " is held already");
  if (has(i, Mark::kTape)) return refuse(concat("x[", i, "] is held already, inside tape ", i));
  if (has(i, Mark::kBareTape)) return refuse(concat("tape ", i, " is held already"));
  if (has(i, Mark::kOutputOffloaded))
    return refuse(output_name(i) + " is offloaded: prefetch it instead");
  return std::nullopt;
}

Ledger::Outcome Ledger::State::settle(Bytes during, Bytes after) {
  held = after;
  return {std::nullopt, {during, after}};
}

}  // namespace trireme::simulate
