// Who has which layers where one rank may have several stages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cut/cut_search.h"
#include "stage/stage_room.h"

#include <vector>

namespace trireme::partition {

/// Stages in the order of their layers.
struct Allocation {
  Cut ends;                // last layers
  std::vector<int> ranks;  // who has them

  auto operator<=>(const Allocation&) const = default;
  int stages() const { return static_cast<int>(ends.size()); }
  int first(int stage) const {
    return stage == 0 ? 1 : ends[static_cast<std::size_t>(stage) - 1] + 1;
  }
  int last(int stage) const { return ends[static_cast<std::size_t>(stage)]; }
  int rank(int stage) const { return ranks[static_cast<std::size_t>(stage)]; }
};

/// Stages of every rank, ascending.
std::vector<std::vector<int>> stages_by_rank(const Allocation& allocation, int ranks);

/// The ranks but one, `special`: in the order in which they get one stage each.
std::vector<int> normal_ranks(int ranks, int special);
/// Ranks worth taking for the one with several stages: of neighbours that are alike the first, for
/// whichever is taken, the others stand in the same order.
std::vector<int> special_ranks(const chain::Platform& platform, int ranks);

/// How many ways there are to cut `layers` into one stage for each of `ranks` - 1 ranks, in their
/// order, and one or more that do not follow one another for the special one.
double count_allocations(int layers, int ranks);
/// All of them.
std::vector<Allocation> every_allocation(int layers, int ranks, int special);

/// No plan with this allocation has a shorter step: every rank's work, and what comes before its
/// first micro-batch and after its last.
double least_step(const StageRoom& room, const Allocation& allocation);

}  // namespace trireme::partition
