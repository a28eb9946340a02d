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

}  // namespace

std::vector<int> least_in_flight(const std::vector<double>& stages,
                                 const std::vector<double>& links, double period) {
  std::vector<int> counts(stages.size());
  double seconds = 0;
  for (std::size_t k = stages.size(); k-- > 0;) {
    if (k < links.size() && links[k] > 0) seconds = seconds_in_flight(links[k], seconds, period);
    seconds = seconds_in_flight(stages[k], seconds, period);
    counts[k] = begun_within(seconds, period);
  }
  return counts;
}

// Forward and backward must not meet the forward of another micro-batch, so what does not fit into
// the period that has begun waits for the next.
double seconds_in_flight(double seconds, double taken, double period) {
  if (taken == 0) return seconds;
  const double whole = periods(taken, period) * period;
  return taken + seconds <= whole + kSame * period ? taken + seconds : whole + seconds;
}

int begun_within(double seconds, double period) {
  return static_cast<int>(std::max(1.0, periods(seconds, period)));
}

}  // namespace trireme::partition
