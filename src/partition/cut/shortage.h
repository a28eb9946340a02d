// Why nothing fits, and the least that would have to change.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cut_search.h"
#include "stage/stage_policy.h"
#include "stage/stage_room.h"

#include "trireme/plan/plan.h"

#include <optional>

namespace trireme::partition {

/// What a policy lacks on the cut that lacks least.
struct Shortage {
  Cut cut;
  double scale = 0;             ///< all budgets times this would do; at most 1: nothing is lacking
  plan::Infeasible infeasible;  ///< the rank that lacks most
};

/// The cut for which the largest of needed / available over all ranks is least, exactly, among all
/// cuts or for `fixed` alone.
Shortage shortage(const StageRoom& room, StagePolicy& policy, const std::optional<Cut>& fixed);

/// Whether some cut fits, or the one that the question fixes.
bool fits(const StageRoom& room, StagePolicy& policy);
/// A cut that fits, if there is one: that for which the largest of needed / available is least.
std::optional<Cut> fitting_cut(const StageRoom& room, StagePolicy& policy);

/// The least extra bytes on one rank alone with which some cut fits, and on which rank; nothing if
/// there is no such rank.
struct OneRank {
  int rank = 0;
  Bytes more;
};
std::optional<OneRank> least_on_one_rank(const StageRoom& room, StagePolicy& policy);

}  // namespace trireme::partition
