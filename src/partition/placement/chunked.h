// Plans in which every rank has several chunks: placement, cut, programs and order of passes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage/stage_policy.h"
#include "stage/stage_room.h"

#include "trireme/schedule/named.h"

#include <optional>

namespace trireme::partition {

/// The fastest plan found with two or four chunks on every rank, V-shaped, or with madpipe's cut
/// and placement, and an order of passes searched for its times and memory; simulated within all
/// budgets. Empty if none fits.
std::optional<plan::Plan> searched_plan(const StageRoom& room, StagePolicy& policy);

/// Why no plan with this schedule fits: the rank that lacks most with programs that need least.
/// Throws InputError where the chain has too few layers, or ranks would wait in a circle.
plan::Infeasible lack_of(const StageRoom& room, StagePolicy& policy,
                         const schedule::NamedSchedule& schedule);

/// The fastest plan found with this schedule, simulated within all budgets; empty if none fits, or
/// if the chain has too few layers. Throws InputError where the
/// schedule does not exist for so few micro-batches.
std::optional<plan::Plan> named_plan(const StageRoom& room, StagePolicy& policy,
                                     const schedule::NamedSchedule& schedule);

}  // namespace trireme::partition
