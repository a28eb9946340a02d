// SPDX-License-Identifier: Apache-2.0
#include "state/row.h"

#include <ATen/core/Tensor.h>

namespace trireme::runtime {

bool lies_in_a_row(const StageParameter& parameter) {
  return parameter.weight.is_contiguous() && parameter.gradient.is_contiguous();
}

std::vector<Row> whole_rows(const std::vector<StageParameter>& parameters) {
  std::vector<Row> rows;
  for (const StageParameter& parameter : parameters) {
    const bool is_updated = parameter.is_trained && !parameter.shares_value;
    rows.push_back({0, is_updated ? parameter.weight.numel() : 0});
  }
  return rows;
}

}  // namespace trireme::runtime
