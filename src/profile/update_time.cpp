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
    for (at::Tensor& step : of.steps) step.add_(1);
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
                       const config::OptimizerSpec& optimizer) {
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
    of.steps.push_back(at::zeros({}, at::kFloat));
  }
  std::vector<double> times;
  for (int run = 0; run <= kRuns; ++run) {  // the first one warms up
    const auto begin = std::chrono::steady_clock::now();
    gradients.norm();
    update(of, optimizer, run == 0);
    gradients.zero_();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (run > 0) times.push_back(time.count());
  }
  std::sort(times.begin(), times.end());
  return Seconds(times[kRuns / 2]);
}

}  // namespace trireme::profile
