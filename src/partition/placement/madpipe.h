// One rank with several stages that do not follow one another, the others with one each: who has
// which layers, and plans.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cut/least_cut.h"
#include "stage/stage_options.h"
#include "stage/stage_policy.h"
#include "stage/stage_room.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace trireme::partition {

/// Stages in the order of their layers.
struct Allocation {
  Cut ends;                // last layers
  std::vector<int> ranks;  // who has them

  auto operator<=>(const Allocation&) const = default;
  int stages() const { return static_cast<int>(ends.size()); }
  int first(int stage) const { return first_of(ends, stage); }
  int last(int stage) const { return ends[at(stage)]; }
  int rank(int stage) const { return ranks[at(stage)]; }
};

/// Stages of every rank, ascending.
std::vector<std::vector<int>> stages_by_rank(const Allocation& allocation, int ranks);

/// Ranks worth taking for the one with several stages, the special one: of neighbours that are
/// alike the first, for whichever is taken, the others stand in the same order.
std::vector<int> special_ranks(const chain::Platform& platform, int ranks);

/// How many ways there are to cut `layers` into one stage for each of `ranks` - 1 ranks, in their
/// order, and one or more that do not follow one another for the special one.
double count_allocations(int layers, int ranks);
/// All of them.
std::vector<Allocation> every_allocation(int layers, int ranks, int special);

/// No plan with this allocation has a shorter step: every rank's work, and what comes before its
/// first micro-batch and after its last.
double least_step(const StageRoom& room, const Allocation& allocation);

/// With a special rank no period is shorter, even if nothing were run twice.
double least_period(const StageRoom& room, int special);

/// Allocations in which every rank and link is done with a micro-batch within `period`, each rank
/// within its memory for as many in flight as 1F1B* has; those that take few in flight or leave
/// the special rank room. None if there is none, or if it was lost among too many ways to begin.
/// `options` are those of the room. Of beginnings with equal layers and ranks placed `most_labels`
/// are kept.
std::vector<Allocation> allocations_within(const StageRoom& room, StageOptions& options,
                                           int special, std::size_t most_labels, double period);

/// The fastest plan with a special rank that is found, by the simulator and within all budgets;
/// without copies. Nothing if none is faster than `least`, or fits. Plans where a rank has several
/// stages count as longer by a share of `handicap`.
std::optional<plan::Plan> madpipe_plan(const StageRoom& room, StagePolicy& policy, double least,
                                       double handicap);

}  // namespace trireme::partition
