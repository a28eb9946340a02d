// SPDX-License-Identifier: Apache-2.0
#include "trireme/ranks/clocks.h"

#include "trireme/core/visible.h"

#include <string>
#include <vector>

namespace trireme::ranks {

std::unique_ptr<device::LockedClock> lock_clocks(const RankContext& context, const plan::Plan& plan,
                                                 std::ostream& out) {
  comm::Channel& channel = context.channel;
  std::string clock;
  for (const plan::StagePlan& stage : plan.stages)
    if (stage.rank == channel.rank() % plan::ranks_of(plan)) clock = stage.forward_clock;
  device::ClockLocking mine;
  if (!clock.empty()) mine = context.device.lock_clock(clock);
  const std::vector<std::string> problems =
      comm::all_gather(channel, comm::everyone(channel), mine.problem, "clocks of the ranks");
  for (std::size_t rank = 0; rank < problems.size(); ++rank) {
    if (problems[rank].empty()) continue;
    if (channel.rank() == 0)
      out << "warning: clocks are named in the plan alone, not set, and steps will be faster than "
             "predicted: rank "
          << rank << ": " << visible(problems[rank]) << "\n";
    return nullptr;
  }
  return std::move(mine.lock);
}

}  // namespace trireme::ranks
