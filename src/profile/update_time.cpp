// SPDX-License-Identifier: Apache-2.0
#include "update_time.h"

#include "cold_caches.h"

#include "trireme/model/update.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace trireme::profile {
namespace {

constexpr int kRuns = 5;

}  // namespace

Seconds measure_update(const model::Layer& layer, const model::GradientSums& gradients,
                       const config::TrainSpec& train, device::Marks& marks, Bytes touched) {
  const at::NoGradGuard no_grad;
  const config::OptimizerSpec& optimizer = train.optimizer;
  const bool clips = train.clip_norm > 0;
  model::UpdateGroup group{.decay = optimizer.weight_decay};
  for (const model::Parameter& parameter : layer.parameters()) {
    if (!parameter.is_trained) continue;
    const at::Tensor weight = parameter.value.detach();
    group.add(model::with_moments(optimizer, {.master = weight.to(at::kFloat),
                                              .weight = weight,
                                              .gradient = gradients.of(group.values.size()),
                                              .first = {},
                                              .second = {}}));
  }
  if (group.values.empty()) return Seconds(0);
  const at::Tensor one = clips ? at::ones({}, gradients.flat().options()) : at::Tensor();
  ColdCaches caches(touched, gradients.flat().device());
  marks.begin();
  std::vector<std::pair<device::Marks::Mark, device::Marks::Mark>> runs;
  for (int run = 0; run <= kRuns; ++run) {  // the first one warms up
    caches.pass({});
    const device::Marks::Mark begin = marks.set();
    if (clips) gradients.flat().norm();
    model::update(group, optimizer, /*rate=*/0, run + 1, one);
    runs.emplace_back(begin, marks.set());
  }
  marks.settle();
  std::vector<double> times;
  for (std::size_t run = 1; run <= kRuns; ++run) {
    const auto& [begin, end] = runs[run];
    const std::chrono::duration<double> time = marks.time(end) - marks.time(begin);
    times.push_back(time.count());
  }
  std::sort(times.begin(), times.end());
  return Seconds(times[kRuns / 2]);
}

}  // namespace trireme::profile
