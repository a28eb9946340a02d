// SPDX-License-Identifier: Apache-2.0
#include "static_bytes.h"

#include <ATen/ATen.h>

namespace trireme::profile {

Bytes optimizer_bytes(const at::Tensor& weight, const config::OptimizerSpec& optimizer) {
  const Bytes moment(weight.numel() * std::int64_t{sizeof(float)});
  const Bytes master = weight.scalar_type() == at::kFloat ? Bytes(0) : moment;
  if (optimizer.kind == "adamw") return master + 2 * moment;
  return optimizer.momentum != 0 ? master + moment : master;
}

}  // namespace trireme::profile
