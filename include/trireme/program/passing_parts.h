// Parts of optimizer state that pass a rank's device one after the other, for updates: the moves
// that the simulator counts and the runtime makes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"

#include <cstddef>

namespace trireme::program {

class PassingParts {
 public:
  PassingParts() = default;
  PassingParts(std::size_t count, chain::StateParts most) : count_(count), most_(most) {}

  /// Whether another one begins to come: there is one, and room for it. Until the first one leaves
  /// there is room for those that have come before that.
  bool begin_next();
  /// The next one was used and leaves. Whether the first of those that leave has to have left now.
  bool use_next();
  /// Whether another one leaves still, and now has left.
  bool leave_next();

  /// So many have begun to come, were used, have left.
  std::size_t begun() const { return begun_; }
  std::size_t used() const { return used_; }
  std::size_t gone() const { return gone_; }

 private:
  std::size_t count_ = 0;
  chain::StateParts most_;
  std::size_t begun_ = 0, used_ = 0, gone_ = 0;
};

/// Of `count` things that the actions of an update share evenly, those of one: first up to, and
/// without, end.
struct Share {
  int first = 0, end = 0;
};
Share share_of(int action, int actions, int count);

}  // namespace trireme::program
