// SPDX-License-Identifier: Apache-2.0
#include "other_inputs.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace trireme::profile {
namespace {

using Fill = std::function<at::Tensor(const at::Tensor&)>;

std::vector<Fill> fills_for(c10::Device device);
model::Values filled(const model::Values& values, const Fill& fill);

struct Taken {
  Bytes tape, peak;

  bool operator==(const Taken&) const = default;
};
/// Bytes taken by one taped forward, its input not counted.
Taken taken_by(const Subject& subject, tier::DeviceMemory& account);
void raise(chain::LayerCost& cost, const chain::LayerCost& other);

}  // namespace

bool raise_to_others(const Subject& subject, tier::DeviceMemory& account, chain::LayerCost& cost) {
  const Taken usual = taken_by(subject, account);
  bool is_raised = false;
  for (const Fill& fill : fills_for(subject.input.front().device())) {
    try {
      const model::Values input = filled(subject.input, fill);
      const Subject other{subject.layer,   subject.gradients, input,
                          subject.context, subject.precision, subject.input_gradient};
      if (taken_by(other, account) == usual) continue;
      chain::LayerCost of_other = cost;
      of_other.retape.reset();
      of_other.split.reset();
      measure_bytes(other, account, of_other);
      raise(cost, of_other);
      is_raised = true;
    } catch (const std::exception&) {  // the layer may not accept these values
    }
  }
  return is_raised;
}

namespace {

std::vector<Fill> fills_for(c10::Device device) {
  std::vector<Fill> fills{[](const at::Tensor& value) { return value.min(); },
                          [](const at::Tensor& value) { return value.max(); }};
  // An index out of range is an error on a CPU, but ends all work on a GPU.
  if (device.is_cpu())
    fills.emplace_back([](const at::Tensor& value) {
      return value.is_floating_point() || value.scalar_type() == at::kBool
                 ? at::ones({}, value.options())
                 : value.max();
    });
  return fills;
}

model::Values filled(const model::Values& values, const Fill& fill) {
  const at::NoGradGuard no_grad;
  model::Values result;
  for (const at::Tensor& value : values)
    result.push_back(value.numel() == 0 ? value : at::empty_like(value).copy_(fill(value)));
  return result;
}

Taken taken_by(const Subject& subject, tier::DeviceMemory& account) {
  at::Generator generator = subject.context.generator;
  generator.set_current_seed(1);
  const Bytes before = account.live();
  account.reset_peak();
  const model::Tape tape = model::taped_forward(subject.layer, subject.input, subject.context,
                                                subject.precision, subject.input_gradient);
  return {.tape = account.live() - before, .peak = account.peak() - before};
}

void raise(chain::LayerCost& cost, const chain::LayerCost& other) {
  const Bytes moves = std::max(cost.tape_moves(), other.tape_moves());
  for (Bytes chain::LayerCost::*const field :
       {&chain::LayerCost::output, &chain::LayerCost::tape, &chain::LayerCost::forward_transient,
        &chain::LayerCost::tape_transient, &chain::LayerCost::backward_transient,
        &chain::LayerCost::tape_stays})
    cost.*field = std::max(cost.*field, other.*field);
  cost.tape = std::max(cost.tape, moves + cost.tape_stays);
  cost.retape.reset();
  if (!cost.split || !other.split) return cost.split.reset();
  for (Bytes chain::SplitBackward::*const field :
       {&chain::SplitBackward::pending, &chain::SplitBackward::input_transient,
        &chain::SplitBackward::weights_transient})
    (*cost.split).*field = std::max((*cost.split).*field, (*other.split).*field);
}

}  // namespace
}  // namespace trireme::profile
