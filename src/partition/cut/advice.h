// Why a job does not fit, and what would make it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage/stage_policy.h"
#include "stage/stage_room.h"

#include "trireme/partition/problem.h"
#include "trireme/plan/plan.h"

#include <string>

namespace trireme::partition {

/// What a policy lacks of that name with as few in flight as its solver may try, on the question's
/// cut or the best; with the smallest single changes by which it would fit as advice. Throws
/// InputError where every cut has a stage that is too long for the policy.
plan::Infeasible lacking(const Question& question, StagePolicy& policy, const std::string& name);

}  // namespace trireme::partition
