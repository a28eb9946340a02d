// Copies of offloaded optimizer state to the device and back, for overlapped updates.
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

/// State is copied in parts, in the order of the updates, as in the runtime: while one part is
/// updated, earlier ones are copied out and later ones are copied into the freed places.
class ComingState {
 public:
  ComingState() = default;
  /// Layers in the order of their updates, each with its offloaded bytes.
  ComingState(const std::vector<std::pair<int, Bytes>>& layers, chain::StateParts parts);

  /// Begins to copy in as many parts as there is room for: in the beginning, and after leave().
  void bring(Lanes& lanes);
  /// How many parts the layer's state has.
  int count(int layer) const;
  Bytes next_size() const { return parts_[passing_.used()].size; }
  Seconds next_arrival() const { return parts_[passing_.used()].arrival; }
  /// Begins to copy out the next part, which was updated. Returns until when compute waits: where
  /// more parts are being copied out than may be at a time, until the first of them has ended.
  Seconds leave(Lanes& lanes);

  /// When all parts that were updated so far are copied out.
  Seconds left() const {
    return passing_.used() == 0 ? Seconds(0) : parts_[passing_.used() - 1].left;
  }

 private:
  struct StatePart {
    Bytes size;
    Seconds arrival, left;
  };
  std::vector<StatePart> parts_;
  std::map<int, int> counts_;  ///< number of parts, by layer
  program::PassingParts passing_;
};

}  // namespace trireme::simulate
