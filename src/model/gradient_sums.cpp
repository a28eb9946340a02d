// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/gradient_sums.h"

#include "device_kernels.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <utility>

namespace trireme::model {
namespace {

constexpr std::int64_t kFloatsPerLine = 16;

std::int64_t padded(std::int64_t count) {
  return (count + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
}

}  // namespace

class GradientSums::Sum {
 public:
  explicit Sum(at::Tensor value) : value_(std::move(value)) {}

  const at::Tensor& value() const { return value_; }
  void begin_anew() { is_begun_ = false; }
  void add(const at::Tensor& gradient) {
    const bool is_first = !std::exchange(is_begun_, true);
    if (device_accumulate(value_, gradient, is_first)) return;
    is_first ? value_.copy_(gradient) : value_.add_(gradient);
  }
  void complete() {
    if (!std::exchange(is_begun_, true)) value_.zero_();
  }

  /// Takes a weight's gradient as soon as the backward has it.
  class Hook final : public torch::autograd::PostAccumulateGradHook {
   public:
    explicit Hook(std::shared_ptr<Sum> sum) : sum_(std::move(sum)) {}
    void operator()(const at::Tensor& weight) override {
      const at::NoGradGuard no_grad;
      at::Tensor& gradient = weight.mutable_grad();
      sum_->add(gradient);
      gradient.reset();
    }

   private:
    std::shared_ptr<Sum> sum_;
  };

 private:
  at::Tensor value_;
  bool is_begun_ = true;
};

std::int64_t GradientSums::numbers_for(const std::vector<at::Tensor>& weights) {
  std::int64_t total = 0;
  for (const at::Tensor& weight : weights) total += padded(weight.numel());
  return total;
}

GradientSums::GradientSums(const std::vector<at::Tensor>& weights) : weights_(weights) {
  const c10::Device device = weights.empty() ? at::kCPU : weights.front().device();
  flat_ = at::zeros({numbers_for(weights)}, at::TensorOptions(at::kFloat).device(device));
  std::int64_t offset = 0;
  for (const at::Tensor& weight : weights) {
    const at::Tensor value = flat_.narrow(0, offset, weight.numel()).view(weight.sizes());
    sums_.push_back(std::make_shared<Sum>(value));
    torch::autograd::impl::set_post_acc_grad_hooks(weight,
                                                   std::make_unique<Sum::Hook>(sums_.back()));
    offset += padded(weight.numel());
  }
}

GradientSums::~GradientSums() {
  for (const at::Tensor& weight : weights_)
    torch::autograd::impl::set_post_acc_grad_hooks(weight, nullptr);
}

GradientSums::GradientSums(GradientSums&&) noexcept = default;

const at::Tensor& GradientSums::of(std::size_t i) const {
  return sums_.at(i)->value();
}

void GradientSums::begin_anew() {
  for (const auto& sum : sums_) sum->begin_anew();
}

void GradientSums::complete() {
  for (const auto& sum : sums_) sum->complete();
}

}  // namespace trireme::model
