// Copies costs into arrays.
//
// SPDX-License-Identifier: Apache-2.0
#include "slot_arrays.h"

namespace trireme::solve {

SlotArrays::SlotArrays(const Costs& costs, int top) : first_(costs.first()) {
  const int last = costs.last();
  nothing_.assign(index(last - first_) + 1, 0);
  forward_.push_back(0);
  for (int i = first_; i <= last; ++i) {
    output_.push_back(clipped(costs.output(i), top));
    tape_.push_back(clipped(costs.tape(i), top));
    taping_.push_back(clipped(costs.taping_with_input(i), top));
    forward_.push_back(costs.forward(first_, i));
    redone_.push_back(costs.redone(first_, i));
    for (int j = i; j <= last; ++j) run_.push_back(clipped(costs.run(i, j), top));
  }
}

std::size_t SlotArrays::row(int s) const {
  const std::size_t k = at(s), n = nothing_.size();
  return k * n - k * (k - 1) / 2;
}

}  // namespace trireme::solve
