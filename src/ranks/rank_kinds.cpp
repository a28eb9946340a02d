// SPDX-License-Identifier: Apache-2.0
#include "trireme/ranks/rank_kinds.h"

#include "trireme/core/text.h"
#include "trireme/profile/stored.h"

#include <algorithm>

namespace trireme::ranks {

std::vector<int> RankKinds::ranks_of(int kind) const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < of_rank.size(); ++rank)
    if (of_rank[rank] == kind) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

RankKinds rank_kinds(const config::JobSpec& job, const RankContext& context) {
  const auto machines = comm::all_gather(context.channel, comm::everyone(context.channel),
                                         profile::machine(context.threads, context.device.place()),
                                         "machines of all ranks");
  const auto& speeds = job.pipeline.speeds;
  RankKinds kinds;
  std::vector<std::string> known;  // machine and speed of every kind
  for (std::size_t rank = 0; rank < machines.size(); ++rank) {
    const bool is_told = speeds && rank < speeds->size();
    const std::string kind = concat(machines[rank], is_told ? to_text((*speeds)[rank]) : "");
    const auto place = std::find(known.begin(), known.end(), kind);
    kinds.of_rank.push_back(static_cast<int>(place - known.begin()));
    if (place != known.end()) continue;
    known.push_back(kind);
    kinds.machines.push_back(machines[rank]);
  }
  return kinds;
}

}  // namespace trireme::ranks
