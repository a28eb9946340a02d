// Optimizer step kernels. Training and profiling both use these, so that what is measured is what
// runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace trireme::model {

/// A slice of a parameter that is updated separately has a multiple of this many numbers, so that
/// LibTorch's kernels see the same remainder at its end as at the end of the whole parameter and
/// give the same bits.
inline constexpr std::int64_t kUpdatedTogether = 64;

/// A parameter, or a slice of one, with its gradient and optimizer state; all have the same number
/// of elements.
struct Updated {
  at::Tensor master;         ///< float32; the weight itself where that is float32
  at::Tensor weight;         ///< what layers compute with
  at::Tensor gradient;       ///< float32
  at::Tensor first, second;  ///< moments; undefined if the optimizer has none
};

/// Which moments the optimizer keeps.
bool has_first_moments(const config::OptimizerSpec& spec);
bool has_second_moments(const config::OptimizerSpec& spec);

/// Adds zero moments, if `spec` has them.
Updated with_moments(const config::OptimizerSpec& spec, Updated parameter);

/// Parameters with the same weight decay.
struct UpdateGroup {
  double decay = 0;
  /// AdamW uses all of them, SGD with momentum only first moments, SGD without momentum neither.
  /// Values are float32.
  std::vector<at::Tensor> values, gradients, first_moments, second_moments;
  /// Masters of weights in another type than float32, and these weights.
  std::vector<at::Tensor> masters, weights;

  void add(const Updated& parameter);
};

/// Optimizer step number `step`, from 1, by LibTorch's fused kernels: AdamW (Loshchilov and Hutter
/// 2019) or SGD with momentum. Weights of another type are rounded from their updated masters. If
/// `divisor`, a float32 number on the gradients' device, is defined, gradients are divided by it on
/// the fly.
void update(UpdateGroup& group, const config::OptimizerSpec& spec, double rate, std::int64_t step,
            const at::Tensor& divisor = {});

}  // namespace trireme::model
