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
  model::UpdateGroup decayed{.decay = spec.weight_decay};
  model::UpdateGroup plain{.decay = 0};
  for (const StageParameter& parameter : stage.parameters()) {
    Moments& moments = moments_.emplace_back();
    if (parameter.shares_value || !parameter.is_trained) continue;
    model::UpdateGroup& group = parameter.value.dim() >= 2 ? decayed : plain;
    group.add(spec, parameter.value, parameter.weight.detach(), parameter.gradient);
    if (!group.first_moments.empty()) moments.first = group.first_moments.back();
    if (!group.second_moments.empty()) moments.second = group.second_moments.back();
  }
  for (model::UpdateGroup* group : {&decayed, &plain}) {
    if (!group->values.empty()) groups_.push_back(std::move(*group));
  }
}

void Optimizer::step(double rate, const at::Tensor& divisor) {
  for (model::UpdateGroup& group : groups_) model::update(group, spec_, rate, first_step_, divisor);
  first_step_ = false;
}

void Optimizer::resume_after(std::int64_t steps) {
  const at::NoGradGuard no_grad;
  first_step_ = steps == 0;
  for (const model::UpdateGroup& group : groups_) {
    for (const at::Tensor& counter : group.steps) counter.fill_(steps);
    for (std::size_t i = 0; i < group.masters.size(); ++i) group.weights[i].copy_(group.masters[i]);
  }
}

Bytes Optimizer::state_bytes() const {
  std::int64_t bytes = 0;
  for (const model::UpdateGroup& group : groups_) {
    for (const auto* tensors :
         {&group.masters, &group.first_moments, &group.second_moments, &group.steps}) {
      for (const at::Tensor& tensor : *tensors) bytes += static_cast<std::int64_t>(tensor.nbytes());
    }
  }
  return Bytes(bytes);
}

}  // namespace trireme::runtime
