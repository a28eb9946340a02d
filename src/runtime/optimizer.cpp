// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/optimizer.h"

#include "trireme/tier/memory.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>

namespace trireme::runtime {

double learning_rate(const config::TrainSpec& spec, std::int64_t step) {
  const double full = spec.optimizer.learning_rate;
  const int warmup = spec.schedule.warmup_steps;
  if (step < warmup) return full * static_cast<double>(step + 1) / warmup;
  if (spec.schedule.kind == "constant") return full;
  const double span = std::max(1, spec.steps - 1 - warmup);
  const double progress = std::min(1.0, static_cast<double>(step - warmup) / span);
  const double least = spec.schedule.least_fraction;
  return full * (least + (1 - least) * 0.5 * (1 + std::cos(std::numbers::pi * progress)));
}

Optimizer::Optimizer(const config::OptimizerSpec& spec, const Stage& stage) : spec_(spec) {
  const tier::TagScope tag(tier::Tag::kOptimizer);
  Group decayed{.decay = spec.weight_decay};
  Group plain{.decay = 0};
  const bool adamw = spec.kind == "adamw";
  for (const StageParameter& parameter : stage.parameters()) {
    if (parameter.shares_value) continue;
    Group& group = parameter.value.dim() >= 2 ? decayed : plain;
    const at::Tensor value = parameter.value.detach();
    group.values.push_back(value);
    group.gradients.push_back(parameter.gradient);
    if (adamw || spec.momentum != 0) group.first_moments.push_back(at::zeros_like(value));
    if (!adamw) continue;
    group.second_moments.push_back(at::zeros_like(value));
    group.steps.push_back(at::zeros({}, value.options()));
  }
  for (Group* group : {&decayed, &plain}) {
    if (!group->values.empty()) groups_.push_back(std::move(*group));
  }
}

void Optimizer::step(double rate) {
  const at::NoGradGuard no_grad;
  for (Group& group : groups_) {
    if (spec_.kind == "adamw") {
      step_adamw(group, rate);
    } else {
      step_sgd(group, rate);
    }
  }
  first_step_ = false;
}

void Optimizer::step_adamw(Group& group, double rate) const {
  at::_foreach_add_(group.steps, 1);
  at::_fused_adamw_(group.values, group.gradients, group.first_moments, group.second_moments,
                    /*max_exp_avg_sqs=*/{}, group.steps, rate, spec_.beta1, spec_.beta2,
                    group.decay, spec_.epsilon, /*amsgrad=*/false,
                    /*maximize=*/false);
}

void Optimizer::step_sgd(Group& group, double rate) const {
  at::_fused_sgd_(group.values, group.gradients, group.first_moments, group.decay, spec_.momentum,
                  rate, /*dampening=*/0,
                  /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/first_step_);
}

Bytes Optimizer::state_bytes() const {
  std::int64_t bytes = 0;
  for (const Group& group : groups_) {
    for (const auto* tensors : {&group.first_moments, &group.second_moments, &group.steps}) {
      for (const at::Tensor& tensor : *tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
    }
  }
  return Bytes(bytes);
}

}  // namespace trireme::runtime
