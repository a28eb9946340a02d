// Cost of a sub-chain as an exact step function of m: its breakpoints, ascending in m, strictly
// falling in time.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/solve/costs.h"

#include <cstddef>
#include <vector>

namespace trireme::solve {

class StepColumn {
 public:
  /// The cost is `time` from `m` on, up to the next point.
  struct Point {
    Slots m = 0;
    double time = 0;
  };
  class Draft;

  double at(Slots m) const;
  std::size_t size() const { return points_.size(); }
  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
};

class StepColumn::Draft {
 public:
  explicit Draft(Slots top) : top_(top) {}
  void free_from(Slots m);
  void add(const StepColumn& left, const StepColumn* right, const Split& split);
  StepColumn finish();

 private:
  Slots top_;
  std::vector<Point> points_;  // points of all decisions, unordered
};

}  // namespace trireme::solve
