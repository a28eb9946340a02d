// Deferred weight gradients of linear layers, the second part (W) of a split backward.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <memory>
#include <vector>

namespace trireme::model {

class GradientSum;  ///< private to the module

/// For each weight, the factors dy and x of its gradient dy^T x, and the sum to add it to. Factors
/// are not copied: dy may share memory with a gradient that came into the backward or went out of
/// it, x with an input or a tape. They are kept alive here and must not change until used. If the
/// object is destroyed, the products are never computed.
class PendingProducts {
 public:
  PendingProducts();
  ~PendingProducts();
  PendingProducts(PendingProducts&&) noexcept;
  PendingProducts& operator=(PendingProducts&&) noexcept;
  PendingProducts(const PendingProducts&) = delete;
  PendingProducts& operator=(const PendingProducts&) = delete;

  bool empty() const;
  /// Computes and adds the products in the order in which they were deferred, each with the bits
  /// that it would have had in the backward, and releases its factors.
  void add();

 private:
  friend class GradientSum;
  struct Product;

  void leave(std::weak_ptr<GradientSum> sum, const at::Tensor& dy_NO, const at::Tensor& x_NI);

  std::vector<Product> products_;
};

}  // namespace trireme::model
