// Clocks of a job's ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/device/locked_clock.h"
#include "trireme/plan/plan.h"
#include "trireme/ranks/rank_context.h"

#include <memory>
#include <ostream>

namespace trireme::ranks {

/// Collective: holds every rank's device at the clock that the plan has for it, one for all of its
/// stages, until what this returns is destroyed; null where that is the usual one. Where the device
/// of any rank cannot be held, none is: rank 0 then says why to `out`.
std::unique_ptr<device::LockedClock> lock_clocks(const RankContext& context, const plan::Plan& plan,
                                                 std::ostream& out);

}  // namespace trireme::ranks
