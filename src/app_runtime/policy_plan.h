// Plans that need no costs: one policy for all stages, the chain cut by estimated work or by hand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/chain.h"
#include "trireme/plan/plan.h"

namespace trireme::app {

/// The plan that the job asks for: `plan.file`, or `plan.solver` keep_all (auto) or recompute_all
/// on every stage. Throws InputError for a cut or plan that does not fit the chain or the ranks.
plan::Plan make_policy_plan(const config::JobSpec& job, const model::ChainModel& model, int stages);

}  // namespace trireme::app
