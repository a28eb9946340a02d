// Staging of offloaded optimizer state: parts are copied to a rank's device, updated and copied
// back one after the other. The simulator counts these moves, the runtime makes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"

#include <cstddef>

namespace trireme::program {

class PassingParts {
 public:
  PassingParts() = default;
  PassingParts(std::size_t count, chain::StateParts most) : count_(count), most_(most) {}

  /// Begins to copy in the next part: false if there is none, or no room for it. Before the first
  /// use, room is left free for parts that will be copied out.
  bool begin_next();
  /// The next part was used and begins to be copied out. Returns whether the first copy out has to
  /// have ended now.
  bool use_next();
  /// Ends the next copy out: false if there is none.
  bool leave_next();

  /// Number of parts whose copy in has begun, that were used, whose copy out has ended.
  std::size_t begun() const { return begun_; }
  std::size_t used() const { return used_; }
  std::size_t gone() const { return gone_; }

 private:
  std::size_t count_ = 0;
  chain::StateParts most_;
  std::size_t begun_ = 0, used_ = 0, gone_ = 0;
};

/// The items first..end-1 of `count` that one of the actions of an update handles, which share them
/// evenly.
struct Share {
  int first = 0, end = 0;
};
Share share_of(int action, int actions, int count);

}  // namespace trireme::program
