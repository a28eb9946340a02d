// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/clip.h"

#include <ATen/ATen.h>

namespace trireme::runtime {
namespace {

void clip_on_host(Reducer& reducer, const Stage& stage, double limit, LateScalars& norms) {
  const double norm = reducer.global_norm();
  norms.put(0, norm);
  if (norm <= limit) return;
  const auto factor = static_cast<float>(limit / norm);
  for (const StageParameter& parameter : stage.parameters()) parameter.gradient.mul_(factor);
}

}  // namespace

void clip_gradients(Reducer& reducer, Stage& stage, double limit, LateScalars& norms) {
  if (stage.device().is_cpu()) {
    clip_on_host(reducer, stage, limit, norms);
  } else {
    clip_on_device(reducer, stage, limit, norms);
  }
}

void clip_on_device(Reducer& reducer, Stage& stage, double limit, LateScalars& norms) {
  const at::NoGradGuard no_grad;
  const at::Tensor norm = reducer.global_norm_on_device();
  norms.put(0, norm);
  // Times 1 where the norm is within the limit: the same bits.
  stage.flat_gradients().mul_(at::reciprocal(norm).mul_(limit).clamp_max_(1).to(at::kFloat));
}

}  // namespace trireme::runtime
