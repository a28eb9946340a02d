// Weight gradients, added directly to their sums over micro-batches if a sum exists and the device
// has a kernel for it; otherwise returned by the backward.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device_kernels.h"

#include <ATen/core/TensorBody.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <vector>

namespace trireme::model {

enum class ProductTime {
  kAtOnce,
  kMayWait,  ///< deferred if the weight's sum asks for it: dy and x must not change until then
};
/// dy^T x, for the weight [O, I] that the edge leads to.
at::Tensor gradient_by_product(const torch::autograd::Edge& to, const at::Tensor& dy_NO,
                               const at::Tensor& x_NI, ProductTime time);

/// Collects gradients of a node's backward that come as partial sums. Each sum is so small that a
/// launch dominates its time: all are done in one launch.
class PartSums {
 public:
  /// The sum of `count` columns of partial sums (device_column_parts), from `begin` on; valid after
  /// launch().
  at::Tensor add(const torch::autograd::Edge& to, const at::Tensor& parts, std::int64_t begin,
                 std::int64_t count);
  /// Call before the backward ends: later operations may read the gradients or add to the same
  /// sums.
  void launch();

 private:
  std::vector<PartSum> all_;
};

struct NormParameterGradients {
  at::Tensor weight_C, bias_C;
};
/// Parameter gradients of a norm with `width` columns, those that are needed: `node`'s edges begin
/// with x, weight and, if there is one, bias; `parts` are of the weight's gradient, then the
/// bias's. Valid once `sums` are launched.
NormParameterGradients norm_gradients_by_parts(const torch::autograd::Node& node,
                                               const at::Tensor& parts, std::int64_t width,
                                               PartSums& sums);

}  // namespace trireme::model
