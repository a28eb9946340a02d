// Sums and least of step functions.
//
// SPDX-License-Identifier: Apache-2.0
#include "step_column.h"

#include <algorithm>
#include <limits>

namespace trireme::solve {

double StepColumn::at(Slots m) const {
  const auto after =
      std::upper_bound(points_.begin(), points_.end(), m,
                       [](Slots value, const Point& point) { return value < point.m; });
  return after == points_.begin() ? std::numeric_limits<double>::infinity() : (after - 1)->time;
}

void StepColumn::Draft::free_from(Slots m) {
  if (m <= top_) points_.push_back({m, 0});
}

void StepColumn::Draft::add(const StepColumn& left, const StepColumn* right, const Split& split) {
  static const std::vector<Point> kNothing{{0, 0}};
  const std::vector<Point>& a = left.points_;
  const std::vector<Point>& b = right == nullptr ? kNothing : right->points_;
  if (a.empty() || b.empty()) return;
  // Merges both along m; k and l are the points in force from `m` on.
  std::size_t k = 0, l = 0;
  Slots m = std::max({split.needs, a[0].m, b[0].m + split.holds});
  while (m <= top_) {
    while (k + 1 < a.size() && a[k + 1].m <= m) ++k;
    while (l + 1 < b.size() && b[l + 1].m + split.holds <= m) ++l;
    points_.push_back({m, split.runs + (a[k].time + b[l].time)});
    const Slots never = top_ + 1;
    m = std::min(k + 1 < a.size() ? a[k + 1].m : never,
                 l + 1 < b.size() ? b[l + 1].m + split.holds : never);
  }
}

StepColumn StepColumn::Draft::finish() {
  std::sort(points_.begin(), points_.end(), [](const Point& a, const Point& b) {
    return a.m < b.m || (a.m == b.m && a.time < b.time);
  });
  // Times that differ by rounding alone would multiply from sub-chain to sub-chain.
  constexpr double kNews = 1 - 1e-13;
  StepColumn column;
  for (const Point& point : points_) {
    if (column.points_.empty() || point.time < column.points_.back().time * kNews) {
      column.points_.push_back(point);
    }
  }
  return column;
}

}  // namespace trireme::solve
