// Plans on the trade-off between time and energy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/goal.h"

#include <vector>

namespace trireme::partition {

/// The plans of which no other is at least as fast and takes at most as much energy, by ascending
/// step; of equal ones the first.
TradeOff undominated(std::vector<plan::Plan> plans);

/// The plan of least energy that ends by `deadline`; nullptr if none does.
const plan::Plan* leanest_by(const TradeOff& plans, Seconds deadline);

}  // namespace trireme::partition
