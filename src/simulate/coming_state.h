// Optimizer state of layers that are updated among passes, on its way to the device and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lanes.h"

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"
#include "trireme/program/passing_parts.h"

#include <map>
#include <utility>
#include <vector>

namespace trireme::simulate {

/// Comes in parts, in the order of the updates, as the runtime has them: while one is updated,
/// others leave, into whose places others begin to come.
class ComingState {
 public:
  ComingState() = default;
  /// Of layers in the order of their updates, what each has away.
  ComingState(const std::vector<std::pair<int, Bytes>>& layers, chain::StateParts parts);

  /// Parts begin to come, as many as there is room for: in the beginning, and after leave().
  void bring(Lanes& lanes);
  /// How many parts the layer's state has.
  int count(int layer) const;
  Bytes next_size() const { return parts_[passing_.used()].size; }
  Seconds next_arrival() const { return parts_[passing_.used()].arrival; }
  /// It was updated and leaves; when what compute waits for has left: where more leave than may at
  /// a time, the first of them.
  Seconds leave(Lanes& lanes);

  /// When all that was updated so far has left.
  Seconds left() const {
    return passing_.used() == 0 ? Seconds(0) : parts_[passing_.used() - 1].left;
  }

 private:
  struct Part {
    Bytes size;
    Seconds arrival, left;
  };
  std::vector<Part> parts_;
  std::map<int, int> counts_;  ///< of parts, by layer
  program::PassingParts passing_;
};

}  // namespace trireme::simulate
