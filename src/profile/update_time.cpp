// SPDX-License-Identifier: Apache-2.0
#include "update_time.h"

#include "trireme/model/update.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace trireme::profile {
namespace {

constexpr int kRuns = 5;

}  // namespace

Seconds measure_update(const model::Layer& layer, const at::Tensor& gradients,
                       const config::OptimizerSpec& optimizer) {
  if (layer.parameters().empty()) return Seconds(0);
  const at::NoGradGuard no_grad;
  model::UpdateGroup group{.decay = optimizer.weight_decay};
  for (const model::Parameter& parameter : layer.parameters())
    group.add(optimizer, parameter.value, parameter.value.grad());
  std::vector<double> times;
  for (int run = 0; run <= kRuns; ++run) {  // the first one warms up
    const auto begin = std::chrono::steady_clock::now();
    gradients.norm();
    model::update(group, optimizer, /*rate=*/0, run == 0);
    gradients.zero_();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (run > 0) times.push_back(time.count());
  }
  std::sort(times.begin(), times.end());
  return Seconds(times[kRuns / 2]);
}

}  // namespace trireme::profile
