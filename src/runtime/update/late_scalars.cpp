// SPDX-License-Identifier: Apache-2.0
#include "update/late_scalars.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace trireme::runtime {
namespace {

constexpr std::size_t kChunk = 64;

}  // namespace

void LateScalars::put(std::size_t index, const at::Tensor& value) {
  const at::NoGradGuard no_grad;
  slot(index).copy_(value.reshape({}), /*non_blocking=*/true);
}

void LateScalars::put(std::size_t index, double value) {
  slot(index).fill_(value);
}

std::vector<double> LateScalars::take() {
  std::vector<double> values;
  for (std::size_t i = 0; i < count_; ++i) {
    const at::Tensor slot = chunks_[i / kChunk].select(0, static_cast<std::int64_t>(i % kChunk));
    values.push_back(slot.item<double>());
  }
  for (at::Tensor& chunk : chunks_) chunk.zero_();
  count_ = 0;
  return values;
}

at::Tensor LateScalars::slot(std::size_t index) {
  while (chunks_.size() * kChunk <= index)
    chunks_.push_back(place_->landing(kChunk, type_).zero_());
  count_ = std::max(count_, index + 1);
  return chunks_[index / kChunk].select(0, static_cast<std::int64_t>(index % kChunk));
}

}  // namespace trireme::runtime
