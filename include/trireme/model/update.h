// The optimizer's kernels. Whoever trains or measures uses these, so that what was measured is what
// happens.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace trireme::model {

/// What is updated apart from the rest of a parameter takes multiples of so many numbers: no kernel
/// of LibTorch sees another remainder at the end of such numbers than at the end of the parameter,
/// so that bits are the same.
inline constexpr std::int64_t kUpdatedTogether = 64;

/// A parameter, or a slice of one, with what an optimizer holds for it: as many numbers in each.
struct Updated {
  at::Tensor master;         ///< float32; the weight itself where that is float32
  at::Tensor weight;         ///< what layers compute with
  at::Tensor gradient;       ///< float32
  at::Tensor first, second;  ///< moments; undefined where the optimizer has none
};

/// Which moments the optimizer has for every number.
bool has_first_moments(const config::OptimizerSpec& spec);
bool has_second_moments(const config::OptimizerSpec& spec);

/// The same with moments of zeros, where `spec` has them.
Updated with_moments(const config::OptimizerSpec& spec, Updated parameter);

/// Parameters with the same weight decay.
struct UpdateGroup {
  double decay = 0;
  /// AdamW has all of them, SGD first moments alone, and none without momentum. Values are float32.
  std::vector<at::Tensor> values, gradients, first_moments, second_moments;
  /// Values that layers compute with in another type, and what they compute with.
  std::vector<at::Tensor> masters, weights;

  void add(const Updated& parameter);
};

/// Update number `step`, the first one being 1, by LibTorch's fused kernels: AdamW (Loshchilov and
/// Hutter 2019) or SGD with momentum. Weights of another type are rounded from their masters anew.
/// Gradients are divided by `divisor`, a float32 number on their device, on the way where it is
/// defined.
void update(UpdateGroup& group, const config::OptimizerSpec& spec, double rate, std::int64_t step,
            const at::Tensor& divisor = {});

}  // namespace trireme::model
