// SPDX-License-Identifier: Apache-2.0
#include "trireme/ranks/meter.h"

#include <algorithm>
#include <string>
#include <vector>

namespace trireme::ranks {

std::unique_ptr<device::Meter> open_meter(const RankContext& context) {
  comm::Channel& channel = context.channel;
  const std::vector<std::string> counters = comm::all_gather(
      channel, comm::everyone(channel), context.device.counter(), "what counts energy");
  const auto mine = counters.begin() + channel.rank();
  const bool is_first = std::find(counters.begin(), mine, *mine) == mine;
  std::unique_ptr<device::Meter> meter;
  if (is_first) meter = context.device.open_meter();
  const bool is_missing = is_first && !meter;
  if (comm::any_of(channel, is_missing, "devices without a meter")) return nullptr;
  return meter;
}

}  // namespace trireme::ranks
