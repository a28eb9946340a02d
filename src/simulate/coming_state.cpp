// SPDX-License-Identifier: Apache-2.0
#include "coming_state.h"

#include <algorithm>

namespace trireme::simulate {

ComingState::ComingState(const std::vector<std::pair<int, Bytes>>& layers, chain::StateParts parts)
    : at_once_(static_cast<std::size_t>(parts.at_once)),
      leaving_(static_cast<std::size_t>(parts.leaving())) {
  if (parts.at_once == 0) return;
  for (const auto& [layer, state] : layers)
    for (Bytes left = state; left > Bytes(0); left -= parts_.back().size)
      parts_.push_back({.layer = layer, .size = std::min(left, parts.size)});
}

int ComingState::count(int layer) const {
  return static_cast<int>(std::count_if(parts_.begin(), parts_.end(),
                                        [&](const Part& part) { return part.layer == layer; }));
}

void ComingState::begin(Lanes& lanes) {
  for (std::size_t k = leaving_; k < at_once_; ++k) bring_one(lanes);
}

void ComingState::bring_one(Lanes& lanes) {
  if (begun_ == parts_.size()) return;
  Part& part = parts_[begun_++];
  part.arrival = lanes.occupy_in(part.size);
}

void ComingState::bring(Lanes& lanes) {
  while (begun_ < parts_.size() && begun_ - gone_ < at_once_) bring_one(lanes);
}

Seconds ComingState::leave(Lanes& lanes) {
  Part& part = parts_[used_++];
  part.left = lanes.occupy_out(part.size);
  return used_ - gone_ > leaving_ ? parts_[gone_++].left : Seconds(0);
}

}  // namespace trireme::simulate
