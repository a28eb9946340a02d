// SPDX-License-Identifier: Apache-2.0
#include "static_bytes.h"

#include "trireme/model/precision.h"
#include "trireme/model/update.h"

#include <ATen/ATen.h>

namespace trireme::profile {

Bytes optimizer_bytes(const at::Tensor& weight, const config::OptimizerSpec& optimizer) {
  const Bytes moment(weight.numel() * std::int64_t{sizeof(float)});
  const Bytes master = weight.scalar_type() == at::kFloat ? Bytes(0) : moment;
  if (optimizer.kind == "adamw") return master + 2 * moment;
  return optimizer.momentum != 0 ? master + moment : master;
}

Bytes state_line(const config::TrainSpec& train) {
  const bool has_masters =
      model::precision_of(train.precision) == model::Precision::kBfloat16Weights;
  return optimizer_bytes(
      at::empty({model::kUpdatedTogether}, has_masters ? at::kBFloat16 : at::kFloat),
      train.optimizer);
}

}  // namespace trireme::profile
