// What a backward has left for later: the gradients of the weights of linear layers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <memory>
#include <vector>

namespace trireme::model {

class GradientSum;  ///< private to the module

/// For each weight the two factors of its gradient dy^T x, and the sum to which this is added. They
/// are nobody's copies: dy may be the bytes of a gradient that came into the backward or went out
/// of it, x those of an input or of a tape. All stay as they are until they have been used, and
/// what is here holds them until then. Where it is dropped, the products are never made.
class PendingProducts {
 public:
  PendingProducts();
  ~PendingProducts();
  PendingProducts(PendingProducts&&) noexcept;
  PendingProducts& operator=(PendingProducts&&) noexcept;
  PendingProducts(const PendingProducts&) = delete;
  PendingProducts& operator=(const PendingProducts&) = delete;

  bool empty() const;
  /// Makes the products in the order in which they were left, each with the bits that it would have
  /// had at once, and lets go of its factors.
  void add();

 private:
  friend class GradientSum;
  struct Product;

  void leave(std::weak_ptr<GradientSum> sum, const at::Tensor& dy_NO, const at::Tensor& x_NI);

  std::vector<Product> products_;
};

}  // namespace trireme::model
