// The sum of one weight's gradients and the hooks by which a backward adds to it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/device_kernels.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <memory>

namespace trireme::model {

class PendingProducts;

/// Deferral state shared by all sums of a GradientSums. A backward finds it through the weight, not
/// the thread: on a GPU the engine runs backwards on its own thread, and ranks may be threads of
/// one process.
struct Deferral {
  PendingProducts* into = nullptr;  ///< null: products are computed at once
};

class GradientSum : public std::enable_shared_from_this<GradientSum> {
 public:
  GradientSum(at::Tensor value, std::shared_ptr<const Deferral> deferral);

  /// From now on a backward that reaches the weight, a leaf, adds its gradient to `sum` and leaves
  /// the weight's own grad() undefined. Until forget(weight).
  static void attach(std::shared_ptr<GradientSum> sum, const at::Tensor& weight);
  static void forget(const at::Tensor& weight);
  /// The sum of the weight that the edge leads to; null if it leads to no weight with a sum.
  static GradientSum* along(const torch::autograd::Edge& edge);

  const at::Tensor& value() const { return value_; }
  void begin_anew() { is_begun_ = false; }
  void complete();

  void add(const at::Tensor& gradient);
  /// Adds dy^T x, with the bits of a backward that computes it at once.
  void add_product(const at::Tensor& dy_NO, const at::Tensor& x_NI);

  // For an operator whose backward adds a weight's gradient itself and then returns none for its
  // edge.
  /// Defers the product; false if products are computed at once.
  bool leave_product(const at::Tensor& dy_NO, const at::Tensor& x_NI);
  /// Adds the product; false if the device has no kernel for it.
  bool add_product_by_device(const at::Tensor& dy_NO, const at::Tensor& x_NI);
  /// The work for device_sum_parts, which must be done before anything else is added here.
  PartSum by_parts(const at::Tensor& parts, std::int64_t begin);

 private:
  at::Tensor value_;
  std::shared_ptr<const Deferral> deferral_;
  bool is_begun_ = true;
};

}  // namespace trireme::model
