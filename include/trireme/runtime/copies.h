// Values on their way to the outer tier and back, on lanes of their own beside compute.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/program/needs.h"
#include "trireme/tier/copy_lane.h"
#include "trireme/tier/outer_store.h"

#include <c10/core/Storage.h>

#include <deque>
#include <map>
#include <memory>
#include <vector>

namespace trireme::runtime {

/// One rank's copies. A value is moved by its storages: tensors and saved tensors that stand in
/// them stay as they are, without bytes, until the bytes are back.
///
/// Device bytes are freed in release_next() and taken in begin_next(), both on the caller's thread
/// and in its memory account, so that what is held depends on the program alone and not on how fast
/// the copies are (docs: simulate/copy_points.h).
class Copies {
 public:
  using Key = program::ValueKey;

  /// `store` must outlive the copies.
  explicit Copies(tier::OuterStore& store);
  /// Gives up copies under way.
  ~Copies();
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  /// Starts the copy out of all `storages`. Throws Error when the store is full.
  void offload(Key key, std::vector<c10::Storage> storages);
  /// Waits for the oldest copy out that was not let go of yet, and frees its device bytes. Returns
  /// the value's key.
  Key release_next();
  /// Names the next value to come back; begin_next() takes them in this order.
  void prefetch(Key key);
  /// Takes device bytes for the value and starts its copy in. Returns the value's key.
  Key begin_next();
  /// Waits until the value is back, if it is on its way; frees its place in the store.
  void await(Key key);

  /// Forgets everything: after an error.
  void abandon() noexcept;

  /// Bytes that left since the last call.
  Bytes take_moved();
  /// Most bytes that the store has held.
  Bytes outer_peak() const { return store_.peak(); }

  tier::CopyLane& out() { return out_; }
  tier::CopyLane& in() { return in_; }

 private:
  struct Away {
    std::vector<c10::Storage> storages;
    std::vector<tier::OuterStore::Place> places;
    tier::CopyLane::Ticket written = 0, read = 0;
  };
  Away& away(Key key);

  tier::OuterStore& store_;
  std::map<Key, std::unique_ptr<Away>> away_;  ///< out of reach of moves: lanes work on them
  std::deque<Key> leaving_, coming_;
  Bytes moved_;
  tier::CopyLane out_, in_;
};

}  // namespace trireme::runtime
