// The optimiser's kernels. Whoever trains or measures uses these, so that what was measured is what
// happens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"

#include <ATen/core/Tensor.h>

#include <vector>

namespace trireme::model {

/// Parameters with the same weight decay, and the optimiser's state of each.
struct UpdateGroup {
  double decay = 0;
  /// AdamW has all of them, SGD first moments alone, and none without momentum. Values are float32.
  std::vector<at::Tensor> values, gradients, first_moments, second_moments, steps;
  /// Values that layers compute with in another type, and what they compute with.
  std::vector<at::Tensor> masters, weights;

  /// With a fresh state. `master` is the weight itself where that is float32.
  void add(const config::OptimizerSpec& spec, const at::Tensor& master, const at::Tensor& weight,
           const at::Tensor& gradient);
};

/// One step by LibTorch's fused kernels: AdamW (Loshchilov and Hutter 2019) or SGD with momentum.
/// Weights of another type are rounded from their masters anew. Gradients are divided by `divisor`,
/// a float32 number on their device, on the way where it is defined.
void update(UpdateGroup& group, const config::OptimizerSpec& spec, double rate, bool is_first,
            const at::Tensor& divisor = {});

}  // namespace trireme::model
