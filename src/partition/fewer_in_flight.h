// Fewer micro-batches in flight than the schedule has, where what that saves is worth more.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage_room.h"

#include <optional>

namespace trireme::partition {

/// A faster plan on the cut of `plan`, each stage with as many in flight as 1F1B* needs for the
/// plan's period; nothing if there is none, or if the question says how many.
std::optional<plan::Plan> with_fewer_in_flight(const StageRoom& room, plan::Plan plan);

}  // namespace trireme::partition
