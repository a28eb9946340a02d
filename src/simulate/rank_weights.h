// The streamed weights of one rank's layers, action by action: what its device holds of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"
#include "trireme/program/weights_here.h"
#include "trireme/simulate/validate.h"

#include <cstddef>
#include <vector>

namespace trireme::simulate {

class RankWeights {
 public:
  using Use = program::WeightUses::Use;

  /// Of a rank that streams none.
  RankWeights() = default;
  RankWeights(const Setting& setting, const program::Program& program, int rank);

  bool has_points() const { return !uses_.points.empty(); }
  const program::WeightUses::Point& point(std::size_t action) const { return uses_.points[action]; }

  /// The use has ended: what moves. What left at the end of the one before has left.
  std::vector<program::WeightsMove> end(const Use& use);
  /// All uses that end with the action, or within it, have. The least that was unused since it
  /// began.
  Bytes after(std::size_t action);

  /// Of what moves.
  Bytes size(const program::WeightsMove& move) const;
  /// Of the window, which is among the static bytes, what is free now.
  Bytes unused() const { return window_ - held_ - leaving_; }

 private:
  std::vector<program::WeightsMove> hold(const program::HeldWeights& held);

  std::vector<chain::OffloadWeights> sizes_;  ///< by layer; of other ranks' layers none
  program::WeightUses uses_;
  program::WeightsHere here_;
  Bytes window_, held_, leaving_;
};

}  // namespace trireme::simulate
