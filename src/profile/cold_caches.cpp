// SPDX-License-Identifier: Apache-2.0
#include "cold_caches.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace trireme::profile {

ColdCaches::ColdCaches(Bytes touched, c10::Device device)
    : others_(at::zeros({std::min(touched, kMost).count() / std::int64_t{sizeof(float)}},
                        at::TensorOptions(at::kFloat).device(device))) {}

void ColdCaches::pass(const model::Values& hot) {
  const at::NoGradGuard no_grad;
  others_.add_(1);
  for (const at::Tensor& value : hot) value.clone();
}

}  // namespace trireme::profile
