// Plans of `joint` whose stages also move values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan_builder.h"
#include "stage/stage_room.h"

#include <vector>

namespace trireme::partition {

/// Layers up to which searches for copies take no time.
inline constexpr int kFewLayers = 32;

/// The fastest that is found; nothing where copies cannot make it faster than `plain`, the best
/// plan without them. `cuts`: candidates for that, best first.
Found joint_with_copies(const StageRoom& room, PlanBuilder& builder, const Found& plain,
                        const std::vector<Cut>& cuts);

}  // namespace trireme::partition
