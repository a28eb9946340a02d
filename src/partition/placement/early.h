// Recomputation ahead of gradients where ranks have several stages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage/stage_room.h"

#include <functional>
#include <vector>

namespace trireme::partition {

/// The plan with recomputation moved to before the gradient arrives (recompute_early) in every
/// stage where that makes the step shorter within all budgets; the order of passes stays.
/// `memory(rank)`: bytes for programs and what they keep, kUnlimited without a budget; `in_flight`:
/// by stage.
plan::Plan with_early_recomputation(const StageRoom& room, plan::Plan plan,
                                    const std::function<Bytes(int)>& memory,
                                    const std::vector<int>& in_flight);

}  // namespace trireme::partition
