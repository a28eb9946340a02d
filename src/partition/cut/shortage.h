// Why nothing fits, and the least that would have to change.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage/stage_policy.h"
#include "stage/stage_room.h"
#include "values/cut.h"

#include "trireme/plan/plan.h"

#include <optional>
#include <string>

namespace trireme::partition {

/// What the rank lacks that lacks most: on `fixed`, or on the cut for which the largest of needed /
/// available over all ranks is least, exactly.
plan::Infeasible shortage(const StageRoom& room, StagePolicy& policy,
                          const std::optional<Cut>& fixed);

/// Whether some cut fits, or the one that the question fixes.
bool fits(const StageRoom& room, StagePolicy& policy);
/// A cut that fits, if there is one: that for which the largest of needed / available is least.
std::optional<Cut> fitting_cut(const StageRoom& room, StagePolicy& policy);

/// What a policy lacks of that name with as few in flight as its solver may try, on the question's
/// cut or the best; with the smallest single changes by which it would fit as advice. Throws
/// InputError where every cut has a stage that is too long for the policy.
plan::Infeasible lacking(const Question& question, StagePolicy& policy, const std::string& name);

}  // namespace trireme::partition
