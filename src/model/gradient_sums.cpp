// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/gradient_sums.h"

#include "device_kernels.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
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
  bool add_by(const std::function<bool(at::Tensor& sum, bool is_first)>& add) {
    if (!add(value_, !is_begun_)) return false;
    is_begun_ = true;
    return true;
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
      if (!gradient.defined()) return;  // the backward has added it by itself
      sum_->add(gradient);
      gradient.reset();
    }
    Sum& sum() { return *sum_; }

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

bool GradientSums::add_along(const torch::autograd::Edge& edge,
                             const std::function<bool(at::Tensor& sum, bool is_first)>& add) {
  const auto* const node = dynamic_cast<torch::autograd::AccumulateGrad*>(edge.function.get());
  if (node == nullptr) return false;
  auto* const hook = torch::autograd::impl::post_acc_grad_hooks(node->variable).get();
  auto* const ours = dynamic_cast<Sum::Hook*>(hook);
  return ours != nullptr && ours->sum().add_by(add);
}

void GradientSums::begin_anew() {
  for (const auto& sum : sums_) sum->begin_anew();
}

void GradientSums::complete() {
  for (const auto& sum : sums_) sum->complete();
}

}  // namespace trireme::model
