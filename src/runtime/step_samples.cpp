// SPDX-License-Identifier: Apache-2.0
#include "step_samples.h"

#include <utility>

namespace trireme::runtime {

void StepSamples::add(Recording recording) {
  const std::size_t place = added_++;
  const auto is_kept = [this](std::size_t at) { return at % stride_ == stride_ - 1; };
  if (!is_kept(place)) return;
  kept_.erase(0);
  kept_.emplace(place, std::move(recording));
  if (kept_.size() <= kMost) return;
  stride_ *= 2;
  std::erase_if(kept_, [&](const auto& one) { return !is_kept(one.first); });
}

std::vector<std::size_t> StepSamples::places() const {
  std::vector<std::size_t> places;
  for (const auto& [place, recording] : kept_) places.push_back(place);
  return places;
}

}  // namespace trireme::runtime
