// Gradients of weights, which go straight to where they add up over micro-batches if there is such
// a place and the device has kernels for it; else they are what a backward returns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device_kernels.h"

#include <ATen/core/TensorBody.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <vector>

namespace trireme::model {

enum class ProductTime {
  kAtOnce,
  kMayWait,  ///< where the weight's sum asks for it: dy and x are not written to until then
};
/// dy^T x, for the weight [O, I] that the edge leads to.
at::Tensor gradient_by_product(const torch::autograd::Edge& to, const at::Tensor& dy_NO,
                               const at::Tensor& x_NI, ProductTime time);

/// The gradients of a node's backward that come in parts. Such a sum is so small that it takes what
/// any launch takes: all of them are one.
class PartSums {
 public:
  /// What `count` columns of device_column_parts and its like, from `begin` on, add up to: there
  /// once they are launched.
  at::Tensor add(const torch::autograd::Edge& to, const at::Tensor& parts, std::int64_t begin,
                 std::int64_t count);
  /// Before the backward ends: what comes after it may read the gradients or add to the same sums.
  void launch();

 private:
  std::vector<PartSum> all_;
};

struct NormParameterGradients {
  at::Tensor weight_C, bias_C;
};
/// Of a norm with `width` columns, as far as they are asked for: `node`'s edges begin with those of
/// x, weight and, if there is one, bias; `parts` are of the weight's gradient, then of the bias's.
/// There once `sums` are launched.
NormParameterGradients norm_gradients_by_parts(const torch::autograd::Node& node,
                                               const at::Tensor& parts, std::int64_t width,
                                               PartSums& sums);

}  // namespace trireme::model
