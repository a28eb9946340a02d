// Which uniform policies are worth a closer look.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan_builder.h"
#include "stage/stage_room.h"

#include <string>
#include <vector>

namespace trireme::partition {

/// All "uniform N" and "block N" that differ on stages of this pipeline's lengths.
std::vector<std::string> uniform_policies(const StageRoom& room);

/// Those of them that fit, at most `most`, in the order of their steps on the cut with the least
/// period or the equal one, whichever is faster. Their very best cuts are not looked for here.
std::vector<std::string> hopeful_uniform_policies(const StageRoom& room, PlanBuilder& builder,
                                                  std::size_t most);

}  // namespace trireme::partition
