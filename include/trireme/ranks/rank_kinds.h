// Groups the ranks of a job by the hardware that they compute on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/ranks/rank_context.h"

#include <string>
#include <vector>

namespace trireme::ranks {

/// The ranks that are here, grouped into kinds. Kinds count from 0, which is rank 0's.
struct RankKinds {
  std::vector<int> of_rank;
  std::vector<std::string> machines;  ///< profile::machine() of every kind

  int count() const { return static_cast<int>(machines.size()); }
  const std::string& machine(std::size_t rank) const {
    return machines[static_cast<std::size_t>(of_rank[rank])];
  }
  std::vector<int> ranks_of(int kind) const;
};

/// Collective: ranks are of one kind if their machines are the same and the job, if it gives
/// speeds, gives them the same speed.
RankKinds rank_kinds(const config::JobSpec& job, const RankContext& context);

}  // namespace trireme::ranks
