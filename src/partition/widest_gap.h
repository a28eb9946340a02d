// Looking for the fastest plan along one number, where every look is a plan that takes its time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <optional>
#include <vector>

namespace trireme::partition {

/// A number that was looked at and the step that it gave, infinite where nothing fits.
struct LookedAt {
  double number = 0;
  Seconds step{0};
};

/// The middle of the wider one of the two gaps beside the fastest; nothing where that is less than
/// `finest` wide. `looked` has at least one.
std::optional<double> middle_beside_fastest(std::vector<LookedAt> looked, double finest);

}  // namespace trireme::partition
