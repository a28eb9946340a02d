// Plans made without layer costs: read from a file, or one policy for all stages, with the chain
// cut by estimated work or by hand.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/platform.h"
#include "trireme/config/job.h"
#include "trireme/model/chain.h"
#include "trireme/plan/plan.h"

#include <optional>
#include <vector>

namespace trireme::prepare {

/// The job's `plan.file`, validated except for budgets. Throws InputError where it does not fit the
/// chain, the ranks or the micro-batches.
plan::Plan plan_from_file(const config::JobSpec& job, const model::ChainModel& model, int stages);

/// Replicas that shard the optimizer state (ZeRO-1), 1 without `memory.shard_optimizer`.
int optimizer_shards(const config::JobSpec& job);

/// `plan.solver` keep_all (auto) or recompute_all on every stage.
plan::Plan make_policy_plan(const config::JobSpec& job, const model::ChainModel& model, int stages);

/// `pipeline.cut`, if the user gave one. Throws InputError where it does not fit.
std::optional<std::vector<int>> cut_by_user(const config::JobSpec& job,
                                            const model::ChainModel& model, int stages);

/// Throws InputError where a given plan updates or offloads state that the chain does not have.
void require_state(const plan::Plan& given, const chain::Chain& chain, const config::JobSpec& job);

/// Throws InputError where a given plan names clocks that the job does not know.
void require_clocks(const plan::Plan& given, const chain::Platform& platform,
                    const config::JobSpec& job);

}  // namespace trireme::prepare
