// SPDX-License-Identifier: Apache-2.0
#include "in_flight.h"

#include <cmath>
#include <cstddef>

namespace trireme::partition {
namespace {

/// Sums of the same times in another order differ by less, in periods.
constexpr double kSame = 1e-9;

double periods(double seconds, double period) {
  return std::ceil(seconds / period - kSame);
}

// Seconds from the begin of a forward to the end of its backward, one resource further up: the two
// must not meet the forward of another micro-batch, so what does not fit into the period that has
// begun waits for the next.
double before(double seconds, double taken, double period) {
  if (seconds == 0) return taken;
  const double whole = periods(seconds, period) * period;
  return seconds + taken <= whole + kSame * period ? seconds + taken : whole + taken;
}

}  // namespace

std::vector<int> least_in_flight(const std::vector<double>& stages,
                                 const std::vector<double>& links, double period) {
  std::vector<int> counts(stages.size());
  double seconds = 0;
  for (std::size_t k = stages.size(); k-- > 0;) {
    if (k < links.size() && links[k] > 0) seconds = before(seconds, links[k], period);
    seconds = before(seconds, stages[k], period);
    counts[k] = static_cast<int>(std::max(1.0, periods(seconds, period)));
  }
  return counts;
}

}  // namespace trireme::partition
