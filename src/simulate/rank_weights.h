// The streamed weights of one rank's layers, action by action: what its device holds of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/program/weight_uses.h"
#include "trireme/simulate/validate.h"

#include <cstddef>
#include <vector>

namespace trireme::simulate {

class RankWeights {
 public:
  /// Of a rank that streams none.
  RankWeights() = default;
  RankWeights(const Setting& setting, const program::Program& program, int rank);

  /// The layer whose weights the action waits for; 0: none.
  int needed(std::size_t action) const {
    return uses_.points.empty() ? 0 : uses_.points[action].needs;
  }
  /// The action has run: the layers whose weights begin to come, in their order.
  std::vector<int> after(std::size_t action);

  Bytes size(int layer) const { return sizes_[static_cast<std::size_t>(layer)]; }
  /// Of the window, which is among the static bytes, what is free now.
  Bytes unused() const { return unused_; }

 private:
  void hold(const program::HeldWeights& held);

  std::vector<Bytes> sizes_;  ///< by layer; of other ranks' layers 0
  program::WeightUses uses_;
  program::HeldWeights held_;
  Bytes window_, unused_;
};

}  // namespace trireme::simulate
