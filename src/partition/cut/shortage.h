// Why no plan fits, and the smallest changes that would help.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage/stage_policy.h"
#include "stage/stage_room.h"
#include "values/cut.h"

#include "trireme/plan/plan.h"

#include <optional>
#include <string>

namespace trireme::partition {

/// What the scarcest rank lacks: on `fixed`, or on the cut for which the largest needed / available
/// over all ranks is least, exact.
plan::Infeasible shortage(const StageRoom& room, StagePolicy& policy,
                          const std::optional<Cut>& fixed);

/// Whether some cut fits, or the one that the question fixes.
bool fits(const StageRoom& room, StagePolicy& policy);
/// The cut that fits with the least of the largest needed / available, if any fits.
std::optional<Cut> fitting_cut(const StageRoom& room, StagePolicy& policy);

/// What the policy `name` lacks with the fewest micro-batches in flight that its solver may try, on
/// the question's cut or the best; with the smallest single changes that would help as advice.
/// Throws InputError where every cut has a stage that is too long for the policy.
plan::Infeasible lacking(const Question& question, StagePolicy& policy, const std::string& name);

}  // namespace trireme::partition
