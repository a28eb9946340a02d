// Streamed weights of one rank's layers: what the device holds of them, action by action.
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

  /// A rank without streamed weights.
  RankWeights() = default;
  RankWeights(const Setting& setting, const program::Program& program, int rank);

  bool has_points() const { return !uses_.points.empty(); }
  const program::WeightUses::Point& point(std::size_t action) const { return uses_.points[action]; }

  /// Ends a use and returns the copies to begin. Copies out begun at the end of the use before have
  /// ended.
  std::vector<program::WeightsMove> end(const Use& use);
  /// Ends all uses that end with the action or within it. Returns the least unused() since it
  /// began.
  Bytes after(std::size_t action);

  /// Bytes that a move copies or frees.
  Bytes size(const program::WeightsMove& move) const;
  /// Bytes of the window, which is among the static bytes, that are free now.
  Bytes unused() const { return window_ - held_ - leaving_; }

 private:
  std::vector<program::WeightsMove> hold(const program::HeldWeights& held);

  std::vector<chain::OffloadWeights> sizes_;  ///< by layer; 0 for layers of other ranks
  program::WeightUses uses_;
  program::WeightsHere here_;
  Bytes window_, held_, leaving_;
};

}  // namespace trireme::simulate
