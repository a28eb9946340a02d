// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/update.h"

#include <ATen/ATen.h>

#include <optional>

namespace trireme::model {
void UpdateGroup::add(const config::OptimizerSpec& spec, const at::Tensor& master,
                      const at::Tensor& weight, const at::Tensor& gradient) {
  const bool is_adamw = spec.kind == "adamw";
  values.push_back(master);
  gradients.push_back(gradient);
  if (weight.scalar_type() != master.scalar_type()) {
    masters.push_back(master);
    weights.push_back(weight);
  }
  if (is_adamw || spec.momentum != 0) first_moments.push_back(at::zeros_like(master));
  if (!is_adamw) return;
  second_moments.push_back(at::zeros_like(master));
  steps.push_back(at::zeros({}, at::TensorOptions(at::kFloat).device(master.device())));
}

void update(UpdateGroup& group, const config::OptimizerSpec& spec, double rate, bool is_first,
            const at::Tensor& divisor) {
  const at::NoGradGuard no_grad;
  const std::optional<at::Tensor> scale = divisor.defined() ? std::optional(divisor) : std::nullopt;
  if (spec.kind == "adamw") {
    at::_foreach_add_(group.steps, 1);
    at::_fused_adamw_(group.values, group.gradients, group.first_moments, group.second_moments,
                      /*max_exp_avg_sqs=*/{}, group.steps, rate, spec.beta1, spec.beta2,
                      group.decay, spec.epsilon, /*amsgrad=*/false, /*maximize=*/false, scale);
  } else {
    at::_fused_sgd_(group.values, group.gradients, group.first_moments, group.decay, spec.momentum,
                    rate, /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false, is_first, scale);
  }
  if (!group.masters.empty()) at::_foreach_copy_(group.weights, group.masters);
}

}  // namespace trireme::model
