// What a job asks of the planner.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/partition/goal.h"
#include "trireme/partition/planner.h"

namespace trireme::prepare {

/// What the job says of a question that is the same whatever its chain, ranks and shape.
void take_options(const config::JobSpec& job, partition::Question& question);

/// Throws InputError where `plan.solver` is no solver, before anything is measured for it.
void require_solver(const config::JobSpec& job);

/// What the job's plan is for. Throws InputError for a deadline that cannot be read.
partition::Goal goal_of(const config::JobSpec& job);
/// Whether only measured joules can say what energy costs: the job asks for least energy, and gives
/// no watts.
bool needs_joules(const config::JobSpec& job);

}  // namespace trireme::prepare
