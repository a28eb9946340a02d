// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/executor.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/model/given.h"
#include "trireme/model/taped.h"
#include "trireme/program/needs.h"
#include "trireme/program/weights.h"
#include "trireme/tier/memory.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

namespace trireme::runtime {
namespace {

using program::Action;
using program::Op;

/// Undoes the changes of a recomputed forward to a layer's buffers, so that statistics are updated
/// once. Writes past the version counter: another micro-batch's tape may have saved the buffer
/// without using its values.
class BufferGuard {
 public:
  BufferGuard(const model::Layer& layer, bool repeated) {
    if (!repeated) return;
    for (const model::Buffer& buffer : layer.buffers())
      saved_.emplace_back(buffer.value, buffer.value.clone());
  }
  ~BufferGuard() {
    const at::NoGradGuard no_grad;
    try {
      for (const auto& [buffer, before] : saved_) buffer.variable_data().copy_(before);
    } catch (const std::exception&) {  // the device is lost; the forward has reported it
    }
  }
  BufferGuard(const BufferGuard&) = delete;
  BufferGuard& operator=(const BufferGuard&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> saved_;
};

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
  feed_ = &feed;
  step_ = step;
  rate_ = rate;
  training_ = true;
  recorder_ = recorder;
  updates_ = program::layer_updates(actions);
  ensure(options_.clip_norm <= 0 || updates_.place != program::UpdatePlace::kInBackward,
         "gradients that are clipped are all there before any layer is updated");
  parts_.optimizer.announce(updates_, rate);
  return run(actions);
}

void Executor::finish_updates() {
  const std::set<int>& pending = parts_.optimizer.pending();
  if (pending.empty()) return;
  std::vector<Action> actions{{Op::kStateIn}};
  for (const int layer : pending) actions.push_back({Op::kUpdate, layer});
  actions.push_back({Op::kAwaitState});
  if (const StreamedWeights* const weights = parts_.stage.weights())
    actions = program::with_weights(actions, weights->streaming(parts_.stage.layers().back()));
  feed_ = nullptr;
  recorder_ = nullptr;
  updates_ = program::layer_updates(actions);
  run(actions);
}

RunResult Executor::evaluate(const std::vector<Action>& actions, const Feed& feed) {
  feed_ = &feed;
  training_ = false;
  recorder_ = nullptr;
  updates_ = program::layer_updates(actions);
  return run(actions);
}

RunResult Executor::run(const std::vector<Action>& actions) {
  result_ = {};
  forget();
  moving_tapes_ = keys_of(actions, Op::kOffloadTape);
  retaped_ = keys_of(actions, Op::kRetape);
  parts_.boundary.expect(actions);
  parts_.optimizer.take_moved();  // traffic between two runs is not counted
  clock_.begin();
  if (recorder_ != nullptr) recorder_->begin(clock_.marks());
  bring_weights(actions);
  for (const Action& action : actions) {
    if (options_.stop_requested && options_.stop_requested())
      throw Interrupted(concat("stopped on request in step ", step_ + 1));
    perform(action);
  }
  finish();
  finish_copies();
  return std::move(result_);
}

void Executor::finish() {
  if (feed_ != nullptr && feed_->meanwhile) feed_->meanwhile();
  clock_.settle();
  if (recorder_ != nullptr) recorder_->settle();
  for (const double loss : losses_.take()) result_.losses.push_back(static_cast<float>(loss));
  const std::vector<double> norm = norm_.take();
  if (!norm.empty()) result_.gradient_norm = norm.front();
}

void Executor::forget() {
  if (parts_.copies != nullptr) parts_.copies->abandon();
  divisor_.reset();
  values_.clear();
  targets_.clear();
  outlines_.clear();
  pending_.clear();
  ran_.clear();
  losses_.take();
  norm_.take();
}

void Executor::perform(const Action& action) {
  const ValueStore::Key key{action.layer, action.micro_batch};
  const RecordScope record(recorder_, action, ran_.contains(key));
  const device::Range range(parts_.place, [&] { return to_text(action); });
  switch (action.op) {
    case Op::kForward:
      forward(action, Taping::kUntaped);
      return values_.drop_output({action.layer - 1, action.micro_batch});
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
      const Stopwatch watch(clock_, result_.times.backward);
      const tier::TagScope tag(tier::Tag::kWorking);
      auto pending = pending_.extract(key);
      ensure(!pending.empty(), "gradients of weights wait since the first part of their backward");
      pending.mapped().add();
      return note_gradients(action.layer);
    }
    case Op::kDrop:
      return values_.drop_output(key);
    case Op::kLoadInput:
      return values_.put_output(key, parts_.place.fetch(feed_->input(action.micro_batch)));
    case Op::kLoadTarget:
      targets_[key] = parts_.place.fetch(feed_->target(action.micro_batch));
      return;
    case Op::kReadLoss:
      return read_loss(action);
    case Op::kSendOutput:
      return send(action, values_.take_output(key));
    case Op::kSendGradient:
      return send(action, values_.take_gradient(key));
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
    default:
      return move(action);
  }
}

void Executor::offload(const Action& action) {
  // A message being sent still reads the bytes that would be freed.
  if (parts_.stage.ends_run(action.layer)) {
    const Stopwatch watch(clock_, result_.times.wait);
    parts_.boundary.flush_outputs(action.layer);
  }
  const program::ValueKey value = program::moved_value(action);
  parts_.copies->offload(value, values_.storages(value));
}

template <class Run>
auto Executor::in_layer_of(const Action& action, const Run& run) {
  return model::in_layer(action.layer, parts_.stage.layer_name(action.layer),
                         parts_.stage.layer(action.layer), run);
}

void Executor::forward(const Action& action, Taping taping) {
  const ValueStore::Key key{action.layer, action.micro_batch};
  const bool repeated = ran_.contains(key);
  const Stopwatch watch(clock_, repeated ? result_.times.recompute : result_.times.forward);
  const BufferGuard buffers(parts_.stage.layer(action.layer), repeated);
  in_layer_of(action, [&] {
    switch (taping) {
      case Taping::kUntaped:
        return untaped(action, repeated);
      case Taping::kTaped:
        return taped(action);
      case Taping::kRetaped:
        return retaped(action);
    }
  });
  ran_.insert(key);
}

void Executor::untaped(const Action& action, bool repeated) {
  const ValueStore::Key key{action.layer, action.micro_batch};
  model::Layer& layer = parts_.stage.layer(action.layer);
  model::Values output;
  if (!repeated && retaped_.contains(key)) {
    model::Outlined outlined =
        model::outlined_forward(layer, input_of(action), context_of(action), options_.precision,
                                parts_.stage.input_gradient(action.layer));
    output = std::move(outlined.outputs);
    outlines_.insert_or_assign(key, std::move(outlined.outline));
  } else {
    output =
        model::untaped_forward(layer, input_of(action), context_of(action), options_.precision);
  }
  values_.put_output(key, std::move(output));
}

void Executor::taped(const Action& action) {
  const ValueStore::Key key{action.layer, action.micro_batch};
  const tier::TagScope tag(tier::Tag::kKept);
  model::Tape tape = model::taped_forward(
      parts_.stage.layer(action.layer), input_of(action), context_of(action), options_.precision,
      parts_.stage.input_gradient(action.layer),
      moving_tapes_.contains(key) ? model::TapeUse::kMayMove : model::TapeUse::kStays);
  values_.drop_output(key);  // replaced by the tape's own output
  values_.put_tape(key, std::move(tape));
}

void Executor::retaped(const Action& action) {
  const ValueStore::Key key{action.layer, action.micro_batch};
  const tier::TagScope tag(tier::Tag::kKept);
  auto outline = outlines_.extract(key);
  ensure(!outline.empty(), "what is made again was made before, without a tape");
  values_.put_tape(key, model::retape(std::move(outline.mapped()), parts_.stage.layer(action.layer),
                                      input_of(action), context_of(action), options_.precision));
}

void Executor::backward(const Action& action) {
  const Stopwatch watch(clock_, result_.times.backward);
  const tier::TagScope tag(tier::Tag::kWorking);
  const ValueStore::Key key{action.layer, action.micro_batch};
  const model::Values gradients = values_.take_gradient(key);
  model::Values input_gradients =
      in_layer_of(action, [&] { return model::backward(values_.take_tape(key), gradients); });
  end_backward(action, std::move(input_gradients));
}

void Executor::backward_input(const Action& action) {
  const Stopwatch watch(clock_, result_.times.backward);
  const tier::TagScope tag(tier::Tag::kWorking);
  const ValueStore::Key key{action.layer, action.micro_batch};
  std::vector<model::GradientSums*> sums{&parts_.stage.gradients()};
  if (auto* const streamed = parts_.stage.streamed_gradients(action.layer))
    sums.push_back(streamed);
  const model::Values gradients = values_.take_gradient(key);
  model::SplitBackward parts = in_layer_of(
      action, [&] { return model::backward_input(values_.take_tape(key), gradients, sums); });
  pending_.insert_or_assign(key, std::move(parts.pending));
  end_backward(action, std::move(parts.input_gradients));
}

void Executor::end_backward(const Action& action, model::Values input_gradients) {
  const ValueStore::Key below{action.layer - 1, action.micro_batch};
  note_gradients(action.layer);
  values_.drop_output(below);
  targets_.erase({action.layer, action.micro_batch});
  if (action.layer > 1) values_.put_gradient(below, std::move(input_gradients));
}

void Executor::read_loss(const Action& action) {
  const ValueStore::Key key{action.layer, action.micro_batch};
  const model::Values loss = values_.take_output(key);
  ensure(loss.size() == 1 && loss[0].numel() == 1, "the last layer gives one value, the loss");
  losses_.put(static_cast<std::size_t>(action.micro_batch), loss[0]);
  if (training_) values_.put_gradient(key, {at::full_like(loss[0], options_.loss_scale)});
  if (!training_) targets_.erase(key);
}

void Executor::send(const Action& action, model::Values values) {
  const Stopwatch watch(clock_, result_.times.wait);
  parts_.boundary.send(action, std::move(values));
}

void Executor::receive(const Action& action) {
  const Stopwatch watch(clock_, result_.times.wait);
  const ValueStore::Key key{action.layer, action.micro_batch};
  model::Values values = parts_.boundary.receive(action);
  if (action.op == Op::kReceiveInput) return values_.put_output(key, std::move(values));
  values_.put_gradient(key, std::move(values));
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
  const auto target = targets_.find({action.layer, action.micro_batch});
  return {.generator = generator_,
          .training = training_,
          .target = target == targets_.end() ? model::Values{} : target->second,
          .lean_tapes = options_.lean_tapes};
}

}  // namespace trireme::runtime
