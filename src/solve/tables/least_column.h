// Least memory of a sub-chain, whatever the time: one number per sub-chain, exact in the unit of
// the costs. Among decisions with the same need the fastest is kept.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/solve/costs.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace trireme::solve {

struct LeastColumn {
  Slots needs = std::numeric_limits<Slots>::max() / 4;
  double time = std::numeric_limits<double>::infinity();

  /// Time of the leanest program, not of the fastest one that fits.
  double at(Slots m) const { return m < needs ? std::numeric_limits<double>::infinity() : time; }
  std::size_t size() const { return 1; }

  class Draft;
};

class LeastColumn::Draft {
 public:
  explicit Draft(Slots) {}
  void free_from(Slots m) { best_ = {.needs = m, .time = 0}; }
  void add(const LeastColumn& left, const LeastColumn* right, const Split& split) {
    const LeastColumn nothing{.needs = 0, .time = 0};
    const LeastColumn& other = right == nullptr ? nothing : *right;
    const Slots needs = std::max({split.needs, left.needs, other.needs + split.holds});
    const double time = split.runs + left.time + other.time;
    if (needs < best_.needs || (needs == best_.needs && time < best_.time)) {
      best_ = {.needs = needs, .time = time};
    }
  }
  LeastColumn finish() const { return best_; }

 private:
  LeastColumn best_;
};

}  // namespace trireme::solve
