// Copies of optimizer state in parts.
// SPDX-License-Identifier: Apache-2.0
#include "coming_state.h"

#include <algorithm>

namespace trireme::simulate {

ComingState::ComingState(const std::vector<std::pair<int, Bytes>>& layers,
                         chain::StateParts parts) {
  if (parts.at_once == 0) return;
  for (const auto& [layer, state] : layers) {
    for (Bytes left = state; left > Bytes(0); left -= parts_.back().size) {
      parts_.push_back({.size = std::min(left, parts.size)});
      ++counts_[layer];
    }
  }
  passing_ = {parts_.size(), parts};
}

int ComingState::count(int layer) const {
  const auto found = counts_.find(layer);
  return found == counts_.end() ? 0 : found->second;
}

void ComingState::bring(Lanes& lanes) {
  while (passing_.begin_next()) {
    StatePart& part = parts_[passing_.begun() - 1];
    part.arrival = lanes.occupy_in(part.size);
  }
}

Seconds ComingState::leave(Lanes& lanes) {
  StatePart& part = parts_[passing_.used()];
  part.left = lanes.occupy_out(part.size);
  return passing_.use_next() ? parts_[passing_.gone() - 1].left : Seconds(0);
}

}  // namespace trireme::simulate
