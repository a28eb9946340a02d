// MadPipe: allocations in which one rank has several non-adjacent stages and every other rank one,
// and plans for them.
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

/// Stages in chain order.
struct Allocation {
  Cut ends;                // last layers
  std::vector<int> ranks;  // rank of each stage

  auto operator<=>(const Allocation&) const = default;
  int stages() const { return static_cast<int>(ends.size()); }
  int first(int stage) const { return first_of(ends, stage); }
  int last(int stage) const { return ends[at(stage)]; }
  chain::LayerRange layers(int stage) const { return layers_of(ends, stage); }
  int rank(int stage) const { return ranks[at(stage)]; }
};

/// Stages of every rank, ascending.
std::vector<std::vector<int>> stages_by_rank(const Allocation& allocation, int ranks);

/// Candidates for the special rank, the one with several stages: of equal neighbouring ranks the
/// first, since the remaining ranks have the same order for each.
std::vector<int> special_ranks(const chain::Platform& platform, int ranks);

/// Number of ways to cut `layers` into one stage for each of `ranks` - 1 ranks, in order, and one
/// or more non-adjacent stages for the special rank.
double count_allocations(int layers, int ranks);
/// All these allocations.
std::vector<Allocation> every_allocation(int layers, int ranks, int special);

/// Lower bound on the step of any plan with this allocation: every rank's work, plus what comes
/// before its first micro-batch and after its last.
Seconds least_step(const StageRoom& room, const Allocation& allocation);

/// Lower bound on the period with a special rank, without recomputation.
Seconds least_period(const StageRoom& room, int special);

/// Allocations in which every rank and link finishes a micro-batch within `period`, each rank
/// within its memory for the numbers in flight of 1F1B*; preferably with few in flight or room on
/// the special rank. Empty if there is none, or if it was pruned. `options` are those of the room.
/// `most_labels` partial allocations are kept for each set of placed layers and ranks.
std::vector<Allocation> allocations_within(const StageRoom& room, StageOptions& options,
                                           int special, std::size_t most_labels, Seconds period);

/// The fastest plan found with a special rank, simulated within all budgets, without copies. Empty
/// if none fits or beats `least`. Steps of plans where a rank has several stages count as longer by
/// a share of `handicap`.
std::optional<plan::Plan> madpipe_plan(const StageRoom& room, StagePolicy& policy, Seconds least,
                                       double handicap);

}  // namespace trireme::partition
