// Stages whose micro-batches in flight do not all keep the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage/stage_policy.h"
#include "stage/stage_room.h"

#include <optional>

namespace trireme::partition {

/// Whether that may be: something is run twice, nothing moves, every rank has one stage of one
/// program.
bool can_be_mixed(const plan::Plan& plan);

/// A faster plan on the cut of `plan`, with as many in flight: where a stage's memory is more than
/// one program for all its micro-batches can use, some of them run one that keeps more. Nothing if
/// there is none. can_be_mixed(plan) must hold.
std::optional<plan::Plan> with_mixed_programs(const StageRoom& room, StagePolicy& policy,
                                              const plan::Plan& plan);

}  // namespace trireme::partition
