// Numbers of micro-batches in flight that stages need, and plans with fewer than the schedule has,
// where the memory saved is worth more.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan_builder.h"
#include "stage/stage_room.h"

#include <optional>
#include <vector>

namespace trireme::partition {

/// 1F1B* (Beaumont, Eyraud-Dubois and Shilova 2021): the least numbers in flight, minimal for every
/// stage at once, with which a pipeline in steady state does one micro-batch per `period`.
/// `stages`: times of one micro-batch, forward and backward; `links`: times of an output and
/// its gradient between a stage and the next, one fewer. None may exceed the period.
std::vector<int> least_in_flight(const std::vector<Seconds>& stages,
                                 const std::vector<Seconds>& links, Seconds period);

/// One step of 1F1B*, from the last resource to the first: time from the start of a forward on a
/// resource that takes `own` per micro-batch to the end of its backward, if those further down take
/// `taken`.
Seconds time_in_flight(Seconds own, Seconds taken, Seconds period);
/// Micro-batches that begin within `time`.
int begun_within(Seconds time, Seconds period);

/// The question with as few in flight as may be tried: one, unless the question or GPipe fixes the
/// numbers.
Question with_fewest_in_flight(const Question& question);

/// Numbers of neighbouring stages that may share a number in flight, growing by a third up to all;
/// none where the question or GPipe fixes the numbers in flight.
std::vector<int> sizes_that_share_a_count(const Question& question);
/// The question with numbers in flight that every `size` neighbouring stages share, counted from
/// the last stage, each one more than the stages after them: what 1F1B* needs where a period has
/// time for `size` stages. Size 1 gives the schedule's numbers, as many as there are stages one
/// everywhere.
Question with_shared_counts(const Question& question, int size);

/// A plan with other numbers in flight than the schedule's; empty if there is none, or if the
/// question fixes them. Where some cut fits with the schedule's numbers (`fits`), a plan faster
/// than `usual`, empty without it. Otherwise the fastest by "joint" with the fewest stages sharing
/// a number with which some cut fits, or with more if that is faster.
std::optional<plan::Plan> with_fewer_in_flight(const StageRoom& room, PlanBuilder& builder,
                                               const plan::Plan* usual, bool fits);

}  // namespace trireme::partition
