// SPDX-License-Identifier: Apache-2.0
#include "static_bytes.h"

#include <ATen/ATen.h>

namespace trireme::profile {
Bytes optimizer_bytes(const model::Parameter& parameter, const config::OptimizerSpec& optimizer) {
  const Bytes moment(static_cast<std::int64_t>(parameter.value.nbytes()));
  if (optimizer.kind == "adamw") return 2 * moment + Bytes(sizeof(float));
  return optimizer.momentum != 0 ? moment : Bytes(0);
}

}  // namespace trireme::profile
