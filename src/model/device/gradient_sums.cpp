// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/gradient_sums.h"

#include "device/gradient_sum.h"

#include <ATen/ATen.h>

#include <cstdint>

namespace trireme::model {
namespace {

constexpr std::int64_t kFloatsPerLine = 16;

std::int64_t padded(std::int64_t count) {
  return (count + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
}

}  // namespace

std::int64_t GradientSums::numbers_for(const std::vector<at::Tensor>& weights) {
  std::int64_t total = 0;
  for (const at::Tensor& weight : weights) total += padded(weight.numel());
  return total;
}

GradientSums::GradientSums(const std::vector<at::Tensor>& weights)
    : weights_(weights), deferral_(std::make_shared<Deferral>()) {
  const c10::Device device = weights.empty() ? at::kCPU : weights.front().device();
  flat_ = at::zeros({numbers_for(weights)}, at::TensorOptions(at::kFloat).device(device));
  std::int64_t offset = 0;
  for (const at::Tensor& weight : weights) {
    const at::Tensor value = flat_.narrow(0, offset, weight.numel()).view(weight.sizes());
    sums_.push_back(std::make_shared<GradientSum>(value, deferral_));
    GradientSum::attach(sums_.back(), weight);
    offset += padded(weight.numel());
  }
}

GradientSums::~GradientSums() {
  for (const at::Tensor& weight : weights_) GradientSum::forget(weight);
}

GradientSums::GradientSums(GradientSums&&) noexcept = default;

const at::Tensor& GradientSums::of(std::size_t i) const {
  return sums_.at(i)->value();
}

void GradientSums::defer_products(PendingProducts* into) {
  deferral_->into = into;
}

void GradientSums::begin_anew() {
  for (const auto& sum : sums_) sum->begin_anew();
}

void GradientSums::complete() {
  for (const auto& sum : sums_) sum->complete();
}

}  // namespace trireme::model
