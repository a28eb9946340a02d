// Measures a job's layer costs, or finds them stored.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/config/job.h"
#include "trireme/model/chain.h"
#include "trireme/profile/measure.h"
#include "trireme/ranks/rank_context.h"

#include <filesystem>
#include <ostream>
#include <vector>

namespace trireme::prepare {

/// Folder of the profiles of this job and its neighbours: runs/.profiles for runs/quickstart.
std::filesystem::path profiles_folder(const config::JobSpec& job);

/// Options to measure on the rank's device, by this rank alone. Rank 0 prints notes about layers to
/// `notes`, which must outlive the measurement.
profile::MeasureOptions measure_options(const ranks::RankContext& context, std::ostream& notes);

struct MeasuredChain {
  chain::Chain chain;          ///< with the times of rank 0
  std::vector<double> speeds;  ///< of the job's first ranks, at least those here; 1: rank 0's
  bool is_earlier = false;     ///< measured by an earlier run, or by `trireme profile`
};

/// Collective: the job's costs with full or lean tapes, as rank 0 has them stored, or measured now,
/// each rank a share of the layers. Where ranks are of several kinds (rank_kinds()), each kind is
/// measured: its speed is rank 0's time for all forwards and backwards divided by its own, unless
/// the job gives speeds.
MeasuredChain measured_chain(const config::JobSpec& job, const model::ChainModel& model,
                             bool lean_tapes, const ranks::RankContext& context, std::ostream& out);

}  // namespace trireme::prepare
