// SPDX-License-Identifier: Apache-2.0
#include "device/gradient_sum.h"

#include "trireme/model/pending_products.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <utility>

namespace trireme::model {
namespace {

constexpr std::int64_t kNumbersPerTask = 32768;

/// Adds a weight's gradient to the sum as soon as the backward has computed it.
class Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Hook(std::shared_ptr<GradientSum> sum) : sum_(std::move(sum)) {}
  void operator()(const at::Tensor& weight) override {
    const at::NoGradGuard no_grad;
    at::Tensor& gradient = weight.mutable_grad();
    if (!gradient.defined()) return;  // the backward has added or deferred it itself
    sum_->add(gradient);
    gradient.reset();
  }
  GradientSum& sum() { return *sum_; }

 private:
  std::shared_ptr<GradientSum> sum_;
};

template <class Number>
void add_numbers(const at::Tensor& sum, const at::Tensor& x) {
  float* const to = sum.mutable_data_ptr<float>();
  const Number* const from = x.const_data_ptr<Number>();
  at::parallel_for(0, x.numel(), kNumbersPerTask, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) to[i] += static_cast<float>(from[i]);
  });
}

/// sum += x with the bits of LibTorch's add_, which first makes a float32 copy of a narrower x:
/// later micro-batches of a step would take more memory than the first. Returns false if x is not
/// supported.
bool add_without_copy(const at::Tensor& sum, const at::Tensor& x) {
  const bool lie_alike = sum.is_contiguous() && x.is_contiguous() && sum.sizes() == x.sizes();
  if (!sum.is_cpu() || !x.is_cpu() || sum.scalar_type() != at::kFloat || !lie_alike) return false;
  if (x.scalar_type() == at::kBFloat16)
    add_numbers<at::BFloat16>(sum, x);
  else if (x.scalar_type() == at::kHalf)
    add_numbers<at::Half>(sum, x);
  else
    return false;
  return true;
}

}  // namespace

GradientSum::GradientSum(at::Tensor value, std::shared_ptr<const Deferral> deferral)
    : value_(std::move(value)), deferral_(std::move(deferral)) {}

void GradientSum::attach(std::shared_ptr<GradientSum> sum, const at::Tensor& weight) {
  torch::autograd::impl::set_post_acc_grad_hooks(weight, std::make_unique<Hook>(std::move(sum)));
}

void GradientSum::forget(const at::Tensor& weight) {
  torch::autograd::impl::set_post_acc_grad_hooks(weight, nullptr);
}

GradientSum* GradientSum::along(const torch::autograd::Edge& edge) {
  const auto* const node = dynamic_cast<torch::autograd::AccumulateGrad*>(edge.function.get());
  if (node == nullptr) return nullptr;
  auto* const hook = torch::autograd::impl::post_acc_grad_hooks(node->variable).get();
  auto* const ours = dynamic_cast<Hook*>(hook);
  return ours == nullptr ? nullptr : &ours->sum();
}

void GradientSum::complete() {
  if (!std::exchange(is_begun_, true)) value_.zero_();
}

void GradientSum::add(const at::Tensor& gradient) {
  const bool is_first = !std::exchange(is_begun_, true);
  if (gradient.is_sparse()) {  // of an embedding with sparse gradients
    if (is_first) value_.zero_();
    value_.add_(gradient);
    return;
  }
  if (device_accumulate(value_, gradient, is_first)) return;
  if (is_first)
    value_.copy_(gradient);
  else if (!add_without_copy(value_, gradient))
    value_.add_(gradient);
}

void GradientSum::add_product(const at::Tensor& dy_NO, const at::Tensor& x_NI) {
  if (!add_product_by_device(dy_NO, x_NI)) add(at::mm(dy_NO.t(), x_NI));
}

bool GradientSum::leave_product(const at::Tensor& dy_NO, const at::Tensor& x_NI) {
  if (deferral_->into == nullptr) return false;
  deferral_->into->leave(shared_from_this(), dy_NO, x_NI);
  return true;
}

bool GradientSum::add_product_by_device(const at::Tensor& dy_NO, const at::Tensor& x_NI) {
  if (!device_add_product(value_, dy_NO, x_NI, /*is_first=*/!is_begun_)) return false;
  is_begun_ = true;
  return true;
}

PartSum GradientSum::by_parts(const at::Tensor& parts, std::int64_t begin) {
  return {value_, parts, begin, /*is_first=*/!std::exchange(is_begun_, true)};
}

}  // namespace trireme::model
