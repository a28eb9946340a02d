// SPDX-License-Identifier: Apache-2.0
#include "rank_weights.h"

#include "trireme/chain/chain.h"

namespace trireme::simulate {

RankWeights::RankWeights(const Setting& setting, const program::Program& program, int rank) {
  if (setting.streamed.empty()) return;
  sizes_ = setting.streamed;
  std::vector<bool> is_streamed;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    if (program.rank_of_layer[i] != rank) sizes_[i] = Bytes(0);
    is_streamed.push_back(sizes_[i] > Bytes(0));
  }
  uses_ = program::weight_uses(program.ranks[static_cast<std::size_t>(rank)], is_streamed,
                               setting.weights_at_once);
  window_ = chain::weights_window(sizes_, setting.weights_at_once);
  hold(uses_.first);
}

std::vector<int> RankWeights::after(std::size_t action) {
  if (uses_.points.empty() || !uses_.points[action].ends_use) return {};
  std::vector<int> coming;
  for (const int layer : uses_.points[action].held.layers)
    if (!held_.has(layer)) coming.push_back(layer);
  hold(uses_.points[action].held);
  return coming;
}

void RankWeights::hold(const program::HeldWeights& held) {
  held_ = held;
  unused_ = window_;
  for (const int layer : held.layers) unused_ -= size(layer);
}

}  // namespace trireme::simulate
