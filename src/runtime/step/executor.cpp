// SPDX-License-Identifier: Apache-2.0
#include "step/executor.h"

#include "step/buffer_guard.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/model/given.h"
#include "trireme/model/taped.h"
#include "trireme/program/needs.h"
#include "trireme/program/weights.h"
#include "trireme/tier/memory.h"

#include <ATen/ATen.h>

#include <utility>

namespace trireme::runtime {
namespace {

using program::Action;
using program::Op;

std::set<ValueStore::Key> keys_of(const std::vector<Action>& actions, Op op) {
  std::set<ValueStore::Key> keys;
  for (const Action& action : actions) {
    if (action.op == op) keys.insert({action.layer, action.micro_batch});
  }
  return keys;
}

}  // namespace

Executor::Executor(Parts parts, ExecutorOptions options)
    : parts_(parts),
      options_(std::move(options)),
      generator_(parts.place.make_generator()),
      clock_(parts.place.make_marks()),
      losses_(parts.place, at::kFloat),
      norm_(parts.place, at::kDouble) {}

RunResult Executor::train(const std::vector<Action>& actions, const Feed& feed, std::int64_t step,
                          double rate, Recorder* recorder) {
  step_ = step;
  program::LayerUpdates updates = program::layer_updates(actions);
  ensure(options_.clip_norm <= 0 || updates.place != program::UpdatePlace::kInBackward,
         "gradients that are clipped are all there before any layer is updated");
  parts_.optimizer.announce(updates, rate);
  return run(actions,
             {.feed = &feed, .recorder = recorder, .rate = rate, .updates = std::move(updates)});
}

void Executor::finish_updates() {
  const std::set<int>& pending = parts_.optimizer.pending();
  if (pending.empty()) return;
  std::vector<Action> actions{{Op::kStateIn}};
  for (const int layer : pending) actions.push_back({Op::kUpdate, layer});
  actions.push_back({Op::kAwaitState});
  if (const StreamedWeights* const weights = parts_.stage.weights())
    actions = program::with_weights(actions, weights->streaming(parts_.stage.layers().back()));
  run(actions, {.updates = program::layer_updates(actions)});
}

RunResult Executor::evaluate(const std::vector<Action>& actions, const Feed& feed) {
  return run(actions,
             {.feed = &feed, .training = false, .updates = program::layer_updates(actions)});
}

RunResult Executor::run(const std::vector<Action>& actions, Run begun) {
  forget();
  run_ = std::move(begun);
  run_.moving_tapes = keys_of(actions, Op::kOffloadTape);
  run_.retaped = keys_of(actions, Op::kRetape);
  parts_.boundary.expect(actions);
  parts_.optimizer.take_moved();  // traffic between two runs is not counted
  clock_.begin();
  if (run_.recorder != nullptr) run_.recorder->begin(clock_.marks());
  bring_weights(actions);
  for (const Action& action : actions) {
    if (options_.stop_requested && options_.stop_requested())
      throw Interrupted(concat("stopped on request in step ", step_ + 1));
    perform(action);
  }
  finish();
  finish_copies();
  return std::move(run_.result);
}

void Executor::finish() {
  if (run_.feed != nullptr && run_.feed->meanwhile) run_.feed->meanwhile();
  clock_.settle();
  if (run_.recorder != nullptr) run_.recorder->settle();
  for (const double loss : losses_.take()) run_.result.losses.push_back(static_cast<float>(loss));
  const std::vector<double> norm = norm_.take();
  if (!norm.empty()) run_.result.gradient_norm = norm.front();
}

void Executor::forget() {
  if (parts_.copies != nullptr) parts_.copies->abandon();
  run_ = {};
  losses_.take();
  norm_.take();
}

void Executor::perform(const Action& action) {
  const ValueStore::Key key{action.layer, action.micro_batch};
  const RecordScope record(run_.recorder, action, run_.ran.contains(key));
  const device::Range range(parts_.place, [&] { return to_text(action); });
  switch (action.op) {
    case Op::kForward:
      forward(action, Taping::kUntaped);
      return run_.values.drop_output({action.layer - 1, action.micro_batch});
    case Op::kForwardKeep:
      return forward(action, Taping::kUntaped);
    case Op::kForwardTape:
      return forward(action, Taping::kTaped);
    case Op::kRetape:
      return forward(action, Taping::kRetaped);
    case Op::kBackward:
      return backward(action);
    case Op::kBackwardInput:
      return backward_input(action);
    case Op::kBackwardWeights: {
      const Stopwatch watch(clock_, run_.result.times.backward);
      const tier::TagScope tag(tier::Tag::kWorking);
      auto pending = run_.pending.extract(key);
      ensure(!pending.empty(), "gradients of weights wait since the first part of their backward");
      pending.mapped().add();
      return note_gradients(action.layer);
    }
    case Op::kDrop:
      return run_.values.drop_output(key);
    case Op::kCompute:
      return compute(action);
    case Op::kGradient:
      return gradient(action);
    case Op::kLoadInput:
      if (parts_.graph != nullptr) begin_micro_batch(action.micro_batch);
      return run_.values.put_output(key, parts_.place.fetch(run_.feed->input(action.micro_batch)));
    case Op::kLoadTarget:
      run_.targets[key] = parts_.place.fetch(run_.feed->target(action.micro_batch));
      return;
    case Op::kReadLoss:
      return read_loss(action);
    case Op::kSendOutput:
      return send(action, run_.values.take_output(key));
    case Op::kSendGradient:
      return send(action, run_.values.take_gradient(key));
    case Op::kReceiveInput:
    case Op::kReceiveGradient:
      return receive(action);
    case Op::kUpdate:
      return update(action);
    case Op::kReduceGradients:
      return reduce(action.layer);
    case Op::kNoteNorm:
      return note_norm(action.layer);
    case Op::kClip:
      return clip();
    case Op::kStep:
      return step(action.layer);
    case Op::kOffload:
    case Op::kOffloadTape:
      return offload(action);
    case Op::kPrefetch:
    case Op::kPrefetchTape:
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
      return move(action);
  }
}

void Executor::offload(const Action& action) {
  // A message being sent still reads the bytes that would be freed.
  if (parts_.stage.ends_run(action.layer)) {
    const Stopwatch watch(clock_, run_.result.times.wait);
    parts_.boundary.flush_outputs(action.layer);
  }
  const program::ValueKey value = program::moved_value(action);
  parts_.copies->offload(value, run_.values.storages(value));
}

void Executor::forward(const Action& action, Taping taping) {
  const ValueStore::Key key{action.layer, action.micro_batch};
  const bool repeated = run_.ran.contains(key);
  const Stopwatch watch(clock_, repeated ? run_.result.times.recompute : run_.result.times.forward);
  const BufferGuard buffers(parts_.stage.layer(action.layer), repeated);
  in_layer_of(action.layer, [&] {
    switch (taping) {
      case Taping::kUntaped:
        return untaped(action, repeated);
      case Taping::kTaped:
        return taped(action);
      case Taping::kRetaped:
        return retaped(action);
    }
  });
  run_.ran.insert(key);
}

void Executor::untaped(const Action& action, bool repeated) {
  const ValueStore::Key key{action.layer, action.micro_batch};
  model::Layer& layer = parts_.stage.layer(action.layer);
  model::Values output;
  if (!repeated && run_.retaped.contains(key)) {
    model::Outlined outlined =
        model::outlined_forward(layer, input_of(action), context_of(action), options_.precision,
                                parts_.stage.input_gradient(action.layer));
    output = std::move(outlined.outputs);
    run_.outlines.insert_or_assign(key, std::move(outlined.outline));
  } else {
    output =
        model::untaped_forward(layer, input_of(action), context_of(action), options_.precision);
  }
  run_.values.put_output(key, std::move(output));
}

void Executor::taped(const Action& action) {
  const ValueStore::Key key{action.layer, action.micro_batch};
  const tier::TagScope tag(tier::Tag::kKept);
  model::Tape tape = model::taped_forward(
      parts_.stage.layer(action.layer), input_of(action), context_of(action), options_.precision,
      parts_.stage.input_gradient(action.layer),
      run_.moving_tapes.contains(key) ? model::TapeUse::kMayMove : model::TapeUse::kStays);
  run_.values.drop_output(key);  // replaced by the tape's own output
  run_.values.put_tape(key, std::move(tape));
}

void Executor::retaped(const Action& action) {
  const ValueStore::Key key{action.layer, action.micro_batch};
  const tier::TagScope tag(tier::Tag::kKept);
  auto outline = run_.outlines.extract(key);
  ensure(!outline.empty(), "what is made again was made before, without a tape");
  run_.values.put_tape(key,
                       model::retape(std::move(outline.mapped()), parts_.stage.layer(action.layer),
                                     input_of(action), context_of(action), options_.precision));
}

void Executor::backward(const Action& action) {
  const Stopwatch watch(clock_, run_.result.times.backward);
  const tier::TagScope tag(tier::Tag::kWorking);
  const ValueStore::Key key{action.layer, action.micro_batch};
  const model::Values gradients = run_.values.take_gradient(key);
  model::Values input_gradients = in_layer_of(
      action.layer, [&] { return model::backward(run_.values.take_tape(key), gradients); });
  end_backward(action, std::move(input_gradients));
}

void Executor::backward_input(const Action& action) {
  const Stopwatch watch(clock_, run_.result.times.backward);
  const tier::TagScope tag(tier::Tag::kWorking);
  const ValueStore::Key key{action.layer, action.micro_batch};
  std::vector<model::GradientSums*> sums{&parts_.stage.gradients()};
  if (auto* const streamed = parts_.stage.streamed_gradients(action.layer))
    sums.push_back(streamed);
  const model::Values gradients = run_.values.take_gradient(key);
  model::SplitBackward parts = in_layer_of(action.layer, [&] {
    return model::backward_input(run_.values.take_tape(key), gradients, sums);
  });
  run_.pending.insert_or_assign(key, std::move(parts.pending));
  end_backward(action, std::move(parts.input_gradients));
}

void Executor::end_backward(const Action& action, model::Values input_gradients) {
  const ValueStore::Key below{action.layer - 1, action.micro_batch};
  note_gradients(action.layer);
  run_.values.drop_output(below);
  run_.targets.erase({action.layer, action.micro_batch});
  if (action.layer > 1) run_.values.put_gradient(below, std::move(input_gradients));
}

void Executor::read_loss(const Action& action) {
  const ValueStore::Key key{action.layer, action.micro_batch};
  const model::Values loss = run_.values.take_output(key);
  ensure(loss.size() == 1 && loss[0].numel() == 1, "the last layer gives one value, the loss");
  losses_.put(static_cast<std::size_t>(action.micro_batch), loss[0]);
  if (run_.training) run_.values.put_gradient(key, {at::full_like(loss[0], options_.loss_scale)});
  if (!run_.training) run_.targets.erase(key);
}

void Executor::send(const Action& action, model::Values values) {
  const Stopwatch watch(clock_, run_.result.times.wait);
  parts_.boundary.send(action, std::move(values));
}

void Executor::receive(const Action& action) {
  const Stopwatch watch(clock_, run_.result.times.wait);
  const ValueStore::Key key{action.layer, action.micro_batch};
  model::Values values = parts_.boundary.receive(action);
  if (action.op == Op::kReceiveInput) return run_.values.put_output(key, std::move(values));
  run_.values.put_gradient(key, std::move(values));
}

model::Context Executor::context_of(const Action& action) {
  const std::uint64_t key =
      mix(static_cast<std::uint64_t>(options_.seed), static_cast<std::uint64_t>(step_),
          static_cast<std::uint64_t>(options_.first_micro_batch + action.micro_batch),
          static_cast<std::uint64_t>(action.layer));
  generator_.set_current_seed(key);
  if (options_.owns_default_generator) {
    at::Generator standard = parts_.place.default_generator();
    const std::lock_guard lock(standard.mutex());
    standard.set_current_seed(key);
  }
  const auto target = run_.targets.find({action.layer, action.micro_batch});
  return {.generator = generator_,
          .training = run_.training,
          .target = target == run_.targets.end() ? model::Values{} : target->second,
          .documents = documents_of(action.micro_batch),
          .lean_tapes = options_.lean_tapes};
}

const std::vector<std::int64_t>& Executor::documents_of(int micro_batch) {
  const auto [place, is_new] = run_.documents.try_emplace(micro_batch);
  if (is_new && run_.feed->documents) place->second = run_.feed->documents(micro_batch);
  return place->second;
}

}  // namespace trireme::runtime
