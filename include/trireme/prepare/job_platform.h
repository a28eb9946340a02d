// The platform of a job's ranks: budgets, offload tiers, links.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/platform.h"
#include "trireme/config/job.h"
#include "trireme/ranks/rank_context.h"
#include "trireme/tier/offload_store.h"

#include <vector>

namespace trireme::prepare {

/// Collective: the platform of `stages` ranks, each of which stands for `replicas` ranks of the job
/// that run the same program: the smallest figures among these count. Where the job has more or
/// fewer ranks than are here, the others count like rank 0. Rates of the offload tier are measured
/// on the first rank of each kind of machine. All ranks get rank 0's speed: see set_speeds().
/// Throws InputError for budgets or speeds that are not one per rank.
chain::Platform job_platform(const config::JobSpec& job, const ranks::RankContext& context,
                             int stages, int replicas);

/// Writes speeds into the platform of `stages` ranks, each of which stands for `replicas` ranks of
/// the job: the slowest counts. Ranks without a speed have that of rank 0.
void set_speeds(chain::Platform& platform, const std::vector<double>& speeds, int replicas);

/// The device budget of the job's rank `rank`, if it computes on `device`; 0: none.
Bytes device_budget(const config::JobSpec& job, int rank, const ranks::RankDevice& device);

/// The offload tier that the job gives every rank.
tier::OffloadStoreOptions offload_store_of(const config::JobSpec& job);

/// `room` bytes of an offload store, host memory first; all of it where it has less.
tier::OffloadStoreOptions part_of(tier::OffloadStoreOptions store, Bytes room);

}  // namespace trireme::prepare
