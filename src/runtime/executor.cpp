// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/executor.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/model/taped.h"
#include "trireme/tier/memory.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <chrono>

namespace trireme::runtime {
namespace {

using program::Action;
using program::Op;
using Clock = std::chrono::steady_clock;

/// Adds the time of its own life to a total.
class Stopwatch {
 public:
  explicit Stopwatch(Seconds& total) : total_(total) {}
  ~Stopwatch() { total_ += Seconds(std::chrono::duration<double>(Clock::now() - begin_).count()); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  Seconds& total_;
  Clock::time_point begin_ = Clock::now();
};

/// Undoes what a repeated forward does to a layer's buffers, so that statistics move once. Writes
/// past the version counter: another micro-batch's tape may have saved the buffer without using its
/// values.
class BufferGuard {
 public:
  BufferGuard(const model::Layer& layer, bool repeated) {
    if (!repeated) return;
    for (const model::Buffer& buffer : layer.buffers())
      saved_.emplace_back(buffer.value, buffer.value.clone());
  }
  ~BufferGuard() {
    const at::NoGradGuard no_grad;
    for (const auto& [buffer, before] : saved_) buffer.variable_data().copy_(before);
  }
  BufferGuard(const BufferGuard&) = delete;
  BufferGuard& operator=(const BufferGuard&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> saved_;
};

}  // namespace

Executor::Executor(Parts parts, ExecutorOptions options)
    : parts_(parts), options_(std::move(options)), generator_(at::detail::createCPUGenerator()) {}

RunResult Executor::train(const std::vector<Action>& actions, const Feed& feed, std::int64_t step,
                          double rate) {
  feed_ = &feed;
  step_ = step;
  rate_ = rate;
  training_ = true;
  return run(actions);
}

RunResult Executor::evaluate(const std::vector<Action>& actions, const Feed& feed) {
  feed_ = &feed;
  training_ = false;
  return run(actions);
}

RunResult Executor::run(const std::vector<Action>& actions) {
  result_ = {};
  values_.clear();
  targets_.clear();
  ran_.clear();
  parts_.boundary.expect(actions);
  for (const Action& action : actions) {
    if (options_.stop_requested && options_.stop_requested())
      throw Interrupted(concat("stopped on request in step ", step_ + 1));
    perform(action);
  }
  return std::move(result_);
}

void Executor::perform(const Action& action) {
  const ValueStore::Key key{action.layer, action.micro_batch};
  switch (action.op) {
    case Op::kForward:
      forward(action, Taping::kUntaped);
      return values_.drop_output({action.layer - 1, action.micro_batch});
    case Op::kForwardKeep:
      return forward(action, Taping::kUntaped);
    case Op::kForwardTape:
      return forward(action, Taping::kTaped);
    case Op::kBackward:
      return backward(action);
    case Op::kDrop:
      return values_.drop_output(key);
    case Op::kLoadInput:
      return values_.put_output(key, feed_->input(action.micro_batch));
    case Op::kLoadTarget:
      targets_[key] = feed_->target(action.micro_batch);
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
    case Op::kReduceGradients: {
      const Stopwatch watch(result_.times.wait);
      return parts_.reducer.reduce();
    }
    case Op::kClip:
      return clip();
    case Op::kStep: {
      const Stopwatch watch(result_.times.step);
      parts_.optimizer.step(rate_);
      return parts_.stage.zero_gradients();
    }
    case Op::kOffload:
    case Op::kPrefetch:
    case Op::kOffloadTape:
    case Op::kPrefetchTape:
      ensure(false, "require_supported refuses copies to the outer tier");
  }
}

void Executor::forward(const Action& action, Taping taping) {
  const ValueStore::Key key{action.layer, action.micro_batch};
  const bool repeated = ran_.contains(key);
  const Stopwatch watch(repeated ? result_.times.recompute : result_.times.forward);
  const BufferGuard buffers(parts_.stage.layer(action.layer), repeated);
  const model::Values& input = values_.output({action.layer - 1, action.micro_batch});
  model::Layer& layer = parts_.stage.layer(action.layer);
  const auto precision =
      options_.bfloat16 ? model::Precision::kBfloat16 : model::Precision::kFloat32;
  if (taping == Taping::kUntaped) {
    model::Values output = model::untaped_forward(layer, input, context_of(action), precision);
    require_value(action, output);
    values_.put_output(key, std::move(output));
  } else {
    const tier::TagScope tag(tier::Tag::kKept);
    model::Tape tape = model::taped_forward(
        layer, input, context_of(action), precision,
        action.layer > 1 ? model::InputGradient::kNeeded : model::InputGradient::kNotNeeded);
    require_value(action, tape.outputs);
    values_.drop_output(key);  // the tape's own output takes its place
    values_.put_tape(key, std::move(tape));
  }
  ran_.insert(key);
}

void Executor::backward(const Action& action) {
  const Stopwatch watch(result_.times.backward);
  const tier::TagScope tag(tier::Tag::kWorking);
  const ValueStore::Key key{action.layer, action.micro_batch};
  const model::Values gradients = values_.take_gradient(key);
  model::Values input_gradients = model::backward(values_.take_tape(key), gradients);
  const ValueStore::Key below{action.layer - 1, action.micro_batch};
  values_.drop_output(below);
  targets_.erase(key);
  if (action.layer > 1) values_.put_gradient(below, std::move(input_gradients));
}

void Executor::read_loss(const Action& action) {
  const ValueStore::Key key{action.layer, action.micro_batch};
  const model::Values loss = values_.take_output(key);
  ensure(loss.size() == 1 && loss[0].numel() == 1, "the last layer gives one value, the loss");
  const auto place = static_cast<std::size_t>(action.micro_batch);
  if (result_.losses.size() <= place) result_.losses.resize(place + 1);
  result_.losses[place] = loss[0].item<float>();
  if (training_) values_.put_gradient(key, {at::full_like(loss[0], options_.loss_scale)});
  if (!training_) targets_.erase(key);
}

void Executor::send(const Action& action, model::Values values) {
  const Stopwatch watch(result_.times.wait);
  parts_.boundary.send(action, std::move(values));
}

void Executor::receive(const Action& action) {
  const Stopwatch watch(result_.times.wait);
  const ValueStore::Key key{action.layer, action.micro_batch};
  model::Values values = parts_.boundary.receive(action);
  if (action.op == Op::kReceiveInput) return values_.put_output(key, std::move(values));
  values_.put_gradient(key, std::move(values));
}

void Executor::clip() {
  if (options_.clip_norm <= 0) return;
  const Stopwatch watch(result_.times.wait);
  const double norm = parts_.reducer.global_norm();
  result_.gradient_norm = norm;
  if (norm <= options_.clip_norm) return;
  const auto factor = static_cast<float>(options_.clip_norm / norm);
  for (const StageParameter& parameter : parts_.stage.parameters()) parameter.gradient.mul_(factor);
}

void Executor::require_value(const Action& action, const model::Values& output) const {
  ensure(!output.empty(), concat("layer ", action.layer, " (",
                                 parts_.stage.layer_name(action.layer), ") gives a value"));
}

model::Context Executor::context_of(const Action& action) {
  const std::uint64_t key =
      mix(static_cast<std::uint64_t>(options_.seed), static_cast<std::uint64_t>(step_),
          static_cast<std::uint64_t>(options_.first_micro_batch + action.micro_batch),
          static_cast<std::uint64_t>(action.layer));
  generator_.set_current_seed(key);
  if (options_.owns_default_generator) {
    at::Generator standard = at::detail::getDefaultCPUGenerator();
    const std::lock_guard lock(standard.mutex());
    standard.set_current_seed(key);
  }
  const auto target = targets_.find({action.layer, action.micro_batch});
  return {.generator = generator_,
          .training = training_,
          .target = target == targets_.end() ? model::Values{} : target->second};
}

void require_supported(const std::vector<Action>& actions) {
  for (const Action& action : actions) {
    switch (action.op) {
      case Op::kOffload:
      case Op::kPrefetch:
      case Op::kOffloadTape:
      case Op::kPrefetchTape:
        throw InputError(concat(
            "the plan moves values to an outer tier (", to_text(action),
            "), which training does not carry out yet; plan with a solver that only recomputes"));
      default:
        break;
    }
  }
}

}  // namespace trireme::runtime
