// Looking for the fastest plan along one number, where every look is a plan that takes its time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/partition/problem.h"

#include <algorithm>
#include <optional>
#include <variant>
#include <vector>

namespace trireme::partition {

/// A step that takes no longer than that of one without waits is not worth a further look.
inline constexpr double kNearIdeal = 1.005;

/// What a look found.
struct Look {
  Answer answer;

  const plan::Plan* plan() const { return std::get_if<plan::Plan>(&answer); }
  Seconds step() const { return plan() == nullptr ? kAnyTime : plan()->step; }
};
/// The fastest of looks, of equals the first.
template <class Looks>
auto fastest_of(const Looks& looks) {
  return std::min_element(looks.begin(), looks.end(),
                          [](const Look& a, const Look& b) { return a.step() < b.step(); });
}

/// A number that was looked at and the step that it gave, infinite where nothing fits.
struct LookedAt {
  double number = 0;
  Seconds step{0};
};

/// The middle of the wider one of the two gaps beside the fastest; nothing where that is less than
/// `finest` wide. `looked` has at least one.
std::optional<double> middle_beside_fastest(std::vector<LookedAt> looked, double finest);

}  // namespace trireme::partition
