// What would make a job fit.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage_policy.h"
#include "stage_room.h"

#include <string>

namespace trireme::partition {

/// The smallest single changes with which the policy of that name would fit, for people:
/// "; it would fit with 3 stages on ranks like the last"; empty if there is none.
std::string advice(const StageRoom& room, StagePolicy& policy, const std::string& name);

}  // namespace trireme::partition
