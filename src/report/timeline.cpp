// SPDX-License-Identifier: Apache-2.0
#include "timeline.h"

namespace trireme::report {

int Timelines::predicted_rank(int rank) const {
  return predicted == nullptr ? rank : rank % static_cast<int>(predicted->ranks.size());
}

const simulate::RankResult* Timelines::predicted_of(int rank) const {
  if (predicted == nullptr) return nullptr;
  return &predicted->ranks[static_cast<std::size_t>(predicted_rank(rank))];
}

const simulate::RankResult* Timelines::measured_of(int rank) const {
  return measured == nullptr ? nullptr : &measured->ranks[static_cast<std::size_t>(rank)];
}

}  // namespace trireme::report
