// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/pending_products.h"

#include "device/gradient_sum.h"
#include "run/saved_tensors.h"

#include "trireme/core/error.h"

#include <ATen/core/grad_mode.h>

#include <utility>

namespace trireme::model {

struct PendingProducts::Product {
  std::weak_ptr<GradientSum> sum;
  SavedTensor dy_NO, x_NI;  ///< detached from their graph
};

PendingProducts::PendingProducts() = default;
PendingProducts::~PendingProducts() = default;
PendingProducts::PendingProducts(PendingProducts&&) noexcept = default;
PendingProducts& PendingProducts::operator=(PendingProducts&&) noexcept = default;

bool PendingProducts::empty() const {
  return products_.empty();
}

void PendingProducts::add() {
  const at::NoGradGuard no_grad;
  for (Product& next : std::exchange(products_, {})) {
    const Product product = std::move(next);
    const std::shared_ptr<GradientSum> sum = product.sum.lock();
    ensure(sum != nullptr, "a weight's sum lives until the last product has been added to it");
    sum->add_product(product.dy_NO.get(), product.x_NI.get());
  }
}

void PendingProducts::leave(std::weak_ptr<GradientSum> sum, const at::Tensor& dy_NO,
                            const at::Tensor& x_NI) {
  Product& product = products_.emplace_back();
  product.sum = std::move(sum);
  product.dy_NO.set(dy_NO);
  product.x_NI.set(x_NI);
}

}  // namespace trireme::model
