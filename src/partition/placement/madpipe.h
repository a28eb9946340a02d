// One rank with several stages that do not follow one another, the others with one each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage/stage_policy.h"
#include "stage/stage_room.h"

#include <optional>

namespace trireme::partition {

/// The fastest such plan that is found, by the simulator and within all budgets; without copies.
/// Nothing if none is faster than `least`, or fits. Plans where a rank has several stages count as
/// longer by a share of `handicap`.
std::optional<plan::Plan> madpipe_plan(const StageRoom& room, StagePolicy& policy, double least,
                                       double handicap);

}  // namespace trireme::partition
