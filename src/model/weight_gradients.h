// Gradients of weights, which go straight to where they add up over micro-batches if there is such
// a place and the device has kernels for it; else they are what a backward returns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>

namespace trireme::model {

enum class ProductTime {
  kAtOnce,
  kMayWait,  ///< where the weight's sum asks for it: dy and x are not written to until then
};
/// dy^T x, for the weight [O, I] that the edge leads to.
at::Tensor gradient_by_product(const torch::autograd::Edge& to, const at::Tensor& dy_NO,
                               const at::Tensor& x_NI, ProductTime time);

/// What `count` columns of device_column_parts and its like, from `begin` on, add up to.
at::Tensor gradient_by_parts(const torch::autograd::Edge& to, const at::Tensor& parts,
                             std::int64_t begin, std::int64_t count);

struct NormParameterGradients {
  at::Tensor weight_C, bias_C;
};
/// Of a norm with `width` columns, as far as they are asked for: `node`'s edges begin with those of
/// x, weight and, if there is one, bias; `parts` are of the weight's gradient, then of the bias's.
NormParameterGradients norm_gradients_by_parts(const torch::autograd::Node& node,
                                               const at::Tensor& parts, std::int64_t width);

}  // namespace trireme::model
