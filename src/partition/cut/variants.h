// Several programs for a stage: the fastest is not always the best, for recomputation that hides
// behind the wait for a gradient costs nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cut_search.h"
#include "stage/stage_policy.h"
#include "stage/stage_room.h"

#include <optional>
#include <vector>

namespace trireme::partition {

/// Programs for the stages of `cut`, chosen together by timeline among those that the policy makes
/// of less and less memory, each with as much recomputation ahead of the gradient as fits. Nothing
/// if some stage does not fit. `less` is what each stage is to leave free.
std::optional<std::vector<program::StageProgram>> chosen_programs(const StageRoom& room,
                                                                  StagePolicy& policy,
                                                                  const Cut& cut,
                                                                  const std::vector<Bytes>& less);

}  // namespace trireme::partition
