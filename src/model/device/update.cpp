// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/update.h"

#include "device/device_kernels.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <optional>

namespace trireme::model {

bool has_first_moments(const config::OptimizerSpec& spec) {
  return has_second_moments(spec) || spec.momentum != 0;
}

bool has_second_moments(const config::OptimizerSpec& spec) {
  return spec.kind == "adamw";
}

Updated with_moments(const config::OptimizerSpec& spec, Updated parameter) {
  if (has_first_moments(spec)) parameter.first = at::zeros_like(parameter.master);
  if (has_second_moments(spec)) parameter.second = at::zeros_like(parameter.master);
  return parameter;
}

void UpdateGroup::add(const Updated& parameter) {
  values.push_back(parameter.master);
  gradients.push_back(parameter.gradient);
  if (parameter.weight.scalar_type() != parameter.master.scalar_type()) {
    masters.push_back(parameter.master);
    weights.push_back(parameter.weight);
  }
  if (parameter.first.defined()) first_moments.push_back(parameter.first);
  if (parameter.second.defined()) second_moments.push_back(parameter.second);
}

void update(UpdateGroup& group, const config::OptimizerSpec& spec, double rate, std::int64_t step,
            const at::Tensor& divisor) {
  const at::NoGradGuard no_grad;
  const std::optional<at::Tensor> scale = divisor.defined() ? std::optional(divisor) : std::nullopt;
  if (spec.kind == "adamw" && device_adamw(group, spec, rate, step, divisor)) return;
  if (spec.kind == "adamw") {
    // The kernel takes one step count per value; all may be the same tensor.
    const at::Tensor count = at::full({}, step, group.values.front().options());
    const std::vector<at::Tensor> steps(group.values.size(), count);
    at::_fused_adamw_(group.values, group.gradients, group.first_moments, group.second_moments,
                      /*max_exp_avg_sqs=*/{}, steps, rate, spec.beta1, spec.beta2, group.decay,
                      spec.epsilon, /*amsgrad=*/false, /*maximize=*/false, scale);
  } else {
    at::_fused_sgd_(group.values, group.gradients, group.first_moments, group.decay, spec.momentum,
                    rate, /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false,
                    /*is_first_step=*/step == 1, scale);
  }
  if (!group.masters.empty()) at::_foreach_copy_(group.weights, group.masters);
}

}  // namespace trireme::model
