// Copies of streamed weights at the uses of a rank's layers.
// SPDX-License-Identifier: Apache-2.0
#include "rank_weights.h"

#include "trireme/program/updates.h"

#include <algorithm>

namespace trireme::simulate {

using program::WeightsKind;
using program::WeightsMove;

RankWeights::RankWeights(const Setting& setting, const program::Program& program, int rank) {
  if (setting.streamed.empty()) return;
  sizes_ = setting.streamed;
  std::vector<WeightsKind> kinds;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    if (program.rank_of_layer[i] != rank) sizes_[i] = {};
    kinds.push_back(sizes_[i].all() == Bytes(0) ? WeightsKind::kStay
                    : sizes_[i].is_trained      ? WeightsKind::kTrained
                                                : WeightsKind::kFrozen);
  }
  const std::vector<program::Action>& actions = program.ranks[static_cast<std::size_t>(rank)];
  uses_ = program::weight_uses(actions, kinds, setting.weights_at_once, setting.replicas > 1);
  window_ = chain::weights_window(sizes_, setting.weights_at_once);
  hold(uses_.first);
  // Which weights are on the device at first may depend on the updates of the step before.
  if (!program::layer_updates(actions).layers.empty())
    for (std::size_t i = 0; i < uses_.points.size(); ++i) after(i);
}

std::vector<WeightsMove> RankWeights::end(const Use& use) {
  here_.used(use.layer, use.change);
  return hold(use.held);
}

Bytes RankWeights::after(std::size_t action) {
  Bytes least = unused();
  if (!has_points()) return least;
  const program::WeightUses::Point& point = uses_.points[action];
  if (point.ends) end(*point.ends);
  for (const Use& use : point.within) {
    end(use);
    least = std::min(least, unused());
  }
  return least;
}

Bytes RankWeights::size(const WeightsMove& move) const {
  const chain::OffloadWeights& of_layer = sizes_[static_cast<std::size_t>(move.layer)];
  return move.of_gradients ? of_layer.gradients : of_layer.weights;
}

std::vector<WeightsMove> RankWeights::hold(const program::HeldWeights& held) {
  std::vector<WeightsMove> moves = here_.hold(held);
  leaving_ = Bytes(0);
  for (const WeightsMove& move : moves) {
    const bool goes =
        move.kind == WeightsMove::Kind::kOut || move.kind == WeightsMove::Kind::kLetGo;
    held_ += goes ? Bytes(0) - size(move) : size(move);
    if (move.kind == WeightsMove::Kind::kOut) leaving_ += size(move);
  }
  return moves;
}

}  // namespace trireme::simulate
