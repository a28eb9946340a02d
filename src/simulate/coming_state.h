// Optimiser state of layers that are updated among passes, on its way to the device and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lanes.h"

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"

#include <cstddef>
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

  /// The first parts begin to come.
  void begin(Lanes& lanes);
  /// How many parts the layer's state has.
  int count(int layer) const;
  Bytes next_size() const { return parts_[used_].size; }
  Seconds next_arrival() const { return parts_[used_].arrival; }
  /// It was updated and leaves; when what compute waits for has left: where more leave than may at
  /// a time, the first of them.
  Seconds leave(Lanes& lanes);
  /// After that: others begin to come, as many as there is room for.
  void bring(Lanes& lanes);

  /// When all that was updated so far has left.
  Seconds left() const { return used_ == 0 ? Seconds(0) : parts_[used_ - 1].left; }

 private:
  struct Part {
    int layer = 0;
    Bytes size;
    Seconds arrival, left;
  };
  void bring_one(Lanes& lanes);

  std::vector<Part> parts_;
  std::size_t at_once_ = 0, leaving_ = 0;  ///< most of them
  std::size_t begun_ = 0, used_ = 0, gone_ = 0;
};

}  // namespace trireme::simulate
