// SPDX-License-Identifier: Apache-2.0
#include "milp.h"

namespace trireme::poet {

int Milp::column(const Column& column) {
  columns.push_back(column);
  return static_cast<int>(columns.size()) - 1;
}

void Milp::row(double lower, const Terms& terms, double upper) {
  for (const auto& [column, factor] : terms) {
    index.push_back(column);
    value.push_back(factor);
  }
  row_start.push_back(static_cast<int>(index.size()));
  row_lower.push_back(lower);
  row_upper.push_back(upper);
}

}  // namespace trireme::poet
