// SPDX-License-Identifier: Apache-2.0
#include "update_time.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace trireme::profile {
namespace {

constexpr int kRuns = 5;

/// The layer's parameters as the fused kernels take them.
struct Updated {
  std::vector<at::Tensor> values, gradients, first_moments, second_moments, steps;
};

void update(Updated& of, const config::OptimizerSpec& optimizer, bool is_first) {
  if (optimizer.kind == "adamw") {
    at::_foreach_add_(of.steps, 1);
    at::_fused_adamw_(of.values, of.gradients, of.first_moments, of.second_moments, {}, of.steps,
                      /*lr=*/0.0, optimizer.beta1, optimizer.beta2, optimizer.weight_decay,
                      optimizer.epsilon, /*amsgrad=*/false, /*maximize=*/false);
  } else {
    at::_fused_sgd_(of.values, of.gradients, of.first_moments, optimizer.weight_decay,
                    optimizer.momentum, /*lr=*/0.0, /*dampening=*/0, /*nesterov=*/false,
                    /*maximize=*/false, is_first);
  }
}

}  // namespace

Seconds measure_update(const model::Layer& layer, const at::Tensor& gradients,
                       const config::OptimizerSpec& optimizer, device::Marks& marks) {
  if (layer.parameters().empty()) return Seconds(0);
  const at::NoGradGuard no_grad;
  const bool is_adamw = optimizer.kind == "adamw";
  Updated of;
  for (const model::Parameter& parameter : layer.parameters()) {
    of.values.push_back(parameter.value);
    of.gradients.push_back(parameter.value.grad());
    if (is_adamw || optimizer.momentum != 0)
      of.first_moments.push_back(at::zeros_like(parameter.value));
    if (!is_adamw) continue;
    of.second_moments.push_back(at::zeros_like(parameter.value));
    of.steps.push_back(at::zeros({}, parameter.value.detach().options()));
  }
  marks.begin();
  std::vector<device::Marks::Mark> turns{marks.set()};
  for (int run = 0; run <= kRuns; ++run) {  // the first one warms up
    gradients.norm();
    update(of, optimizer, run == 0);
    gradients.zero_();
    turns.push_back(marks.set());
  }
  marks.settle();
  std::vector<double> times;
  for (std::size_t run = 1; run <= kRuns; ++run) {
    const std::chrono::duration<double> time = marks.time(turns[run + 1]) - marks.time(turns[run]);
    times.push_back(time.count());
  }
  std::sort(times.begin(), times.end());
  return Seconds(times[kRuns / 2]);
}

}  // namespace trireme::profile
