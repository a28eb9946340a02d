// The sum of one weight's gradients, as a backward finds it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device_kernels.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <cstdint>
#include <memory>

namespace trireme::model {

class PendingProducts;

/// Of all sums of a GradientSums. It is found through a weight, not through the thread: on a GPU
/// the engine runs backwards on a thread of its own, and ranks may be threads of one process.
struct Deferral {
  PendingProducts* into = nullptr;  ///< null: products are made at once
};

class GradientSum : public std::enable_shared_from_this<GradientSum> {
 public:
  GradientSum(at::Tensor value, std::shared_ptr<const Deferral> deferral);

  /// From here on a backward that reaches the weight, a leaf, adds its gradient to `sum`, and
  /// leaves the weight's own grad() undefined. Until forget(weight).
  static void attach(std::shared_ptr<GradientSum> sum, const at::Tensor& weight);
  static void forget(const at::Tensor& weight);
  /// That of the weight to which the edge leads; null where it leads to none with a sum.
  static GradientSum* along(const torch::autograd::Edge& edge);

  const at::Tensor& value() const { return value_; }
  void begin_anew() { is_begun_ = false; }
  void complete();

  void add(const at::Tensor& gradient);
  /// dy^T x, with the bits of a backward that makes it at once.
  void add_product(const at::Tensor& dy_NO, const at::Tensor& x_NI);

  // For an operator whose backward can add the gradient of a weight by itself, and then returns
  // none for its edge.
  /// False if products are made at once.
  bool leave_product(const at::Tensor& dy_NO, const at::Tensor& x_NI);
  /// False if the device has no kernel for it.
  bool add_product_by_device(const at::Tensor& dy_NO, const at::Tensor& x_NI);
  /// What device_sum_parts has to do before anything else is added here.
  PartSum by_parts(const at::Tensor& parts, std::int64_t begin);

 private:
  at::Tensor value_;
  std::shared_ptr<const Deferral> deferral_;
  bool is_begun_ = true;
};

}  // namespace trireme::model
