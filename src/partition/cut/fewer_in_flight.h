// Fewer micro-batches in flight than the schedule has, where what that saves is worth more.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan_builder.h"
#include "stage/stage_room.h"

#include <optional>

namespace trireme::partition {

/// A faster plan on the cut of `plan`, each stage with as many in flight as 1F1B* needs for the
/// plan's period; nothing if there is none, or if the question says how many.
std::optional<plan::Plan> with_fewer_in_flight(const StageRoom& room, const PlanBuilder& builder,
                                               plan::Plan plan);

/// A faster plan than `plan`, on any cut, with neighbouring stages that share a number in flight;
/// nothing if there is none, or if the question says how many. Where memory just suffices for the
/// schedule's numbers, they leave so little of it for tapes that nearly everything runs twice.
std::optional<plan::Plan> with_faster_shared_counts(const StageRoom& room, PlanBuilder& builder,
                                                    const plan::Plan& plan);

/// Whether numbers in flight other than the schedule's may be tried.
bool may_have_fewer_in_flight(const Question& question);

/// The same question where, from the last on, every `size` neighbouring stages share a number in
/// flight, one more than those behind them: what 1F1B* needs where a period has time for `size`
/// stages. With 1 as the schedule has, with as many as there are stages one everywhere.
Question with_shared_counts(const Question& question, int size);

/// Where no cut fits with the schedule's numbers: the fastest plan by "joint" with as few stages
/// that share a number as some cut fits with, or with more if that is faster; nothing if no cut
/// fits at all.
std::optional<plan::Plan> where_fewer_in_flight_fit(const StageRoom& room, PlanBuilder& builder);

}  // namespace trireme::partition
