// SPDX-License-Identifier: Apache-2.0
#include "static_bytes.h"

#include <ATen/ATen.h>

namespace trireme::profile {
namespace {

constexpr std::int64_t kFloatsPerLine = 16;

std::int64_t padded(std::int64_t count) {
  return (count + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
}

Bytes bytes_of(const at::Tensor& tensor) {
  return Bytes(static_cast<std::int64_t>(tensor.nbytes()));
}

}  // namespace

at::Tensor attach_gradients(const model::Layer& layer) {
  std::int64_t total = 0;
  for (const model::Parameter& parameter : layer.parameters())
    total += padded(parameter.value.numel());
  at::Tensor flat = at::zeros({total}, at::kFloat);
  std::int64_t offset = 0;
  for (const model::Parameter& parameter : layer.parameters()) {
    at::Tensor value = parameter.value;
    value.mutable_grad() = flat.narrow(0, offset, value.numel()).view(value.sizes());
    offset += padded(value.numel());
  }
  return flat;
}

Bytes optimizer_bytes(const model::Parameter& parameter, const config::OptimizerSpec& optimizer) {
  const Bytes moment = bytes_of(parameter.value);
  if (optimizer.kind == "adamw") return 2 * moment + Bytes(sizeof(float));
  return optimizer.momentum != 0 ? moment : Bytes(0);
}

}  // namespace trireme::profile
