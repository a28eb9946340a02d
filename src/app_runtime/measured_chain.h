// A job's layer costs on every rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch.h"

#include "trireme/chain/chain.h"
#include "trireme/config/job.h"
#include "trireme/model/chain.h"
#include "trireme/profile/measure.h"

#include <filesystem>
#include <ostream>

namespace trireme::app {

/// Where profiles of this job and its neighbours are: runs/.profiles for runs/quickstart.
std::filesystem::path profiles_folder(const config::JobSpec& job);

/// As the rank's device is measured, by this rank alone.
profile::MeasureOptions measure_options(const RankContext& context);

/// Every rank: the job's costs as rank 0 has them stored, or measured now, each rank a share of the
/// layers.
chain::Chain measured_chain(const config::JobSpec& job, const model::ChainModel& model,
                            const RankContext& context, std::ostream& out);

}  // namespace trireme::app
