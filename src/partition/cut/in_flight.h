// How many micro-batches a stage needs in flight, and plans with fewer than the schedule has where
// what that saves is worth more.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan_builder.h"
#include "stage/stage_room.h"

#include <optional>
#include <vector>

namespace trireme::partition {

/// 1F1B* (Beaumont, Eyraud-Dubois and Shilova 2021): the least numbers in flight, of every stage at
/// once, with which a pipeline in steady state does one micro-batch per `period`. `stages`:
/// seconds of one micro-batch, forward and backward; `links`: seconds of an output and its gradient
/// between a stage and the next, one fewer. None may exceed the period.
std::vector<int> least_in_flight(const std::vector<double>& stages,
                                 const std::vector<double>& links, double period);

/// The same from resource to resource, the last first: seconds from the begin of a forward on one
/// that takes `seconds` for a micro-batch to the end of its backward, if those further down take
/// `taken`.
double seconds_in_flight(double seconds, double taken, double period);
/// How many micro-batches begin within so many seconds.
int begun_within(double seconds, double period);

/// The same question with as few in flight as may be tried: one, unless it or GPipe says how many.
Question with_fewest_in_flight(const Question& question);

/// Sizes of groups of neighbouring stages that share a number in flight, ascending by a third to
/// all of them; none where the question or GPipe says how many are in flight.
std::vector<int> sizes_that_share_a_count(const Question& question);
/// The same question where, from the last on, every `size` neighbouring stages share a number in
/// flight, one more than those behind them: what 1F1B* needs where a period has time for `size`
/// stages. With 1 as the schedule has, with as many as there are stages one everywhere.
Question with_shared_counts(const Question& question, int size);

/// A plan with other numbers in flight than the schedule's; nothing if there is none, or if the
/// question says how many. Where some cut fits with the schedule's (`fits`), one that is faster
/// than `usual`, nothing without it. Where none does, the fastest by "joint" with as few stages
/// that share a number as some cut fits with, or with more if that is faster.
std::optional<plan::Plan> with_fewer_in_flight(const StageRoom& room, PlanBuilder& builder,
                                               const plan::Plan* usual, bool fits);

}  // namespace trireme::partition
