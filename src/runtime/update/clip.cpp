// SPDX-License-Identifier: Apache-2.0
#include "update/clip.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace trireme::runtime {

at::Tensor clip_divisor(Reducer& reducer, const Stage& stage, double limit, LateScalars& norms) {
  if (!stage.device().is_cpu()) return clip_divisor_on_device(reducer, limit, norms);
  const double norm = reducer.norm().value();
  norms.put(0, norm);
  return at::full({}, std::max(1.0, norm / limit), at::kFloat);
}

at::Tensor clip_divisor_on_device(Reducer& reducer, double limit, LateScalars& norms) {
  const at::NoGradGuard no_grad;
  const at::Tensor norm = reducer.norm().value_on_device();
  norms.put(0, norm);
  return norm.div(limit).clamp_min_(1).to(at::kFloat);
}

}  // namespace trireme::runtime
