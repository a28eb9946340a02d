// Interface for copies of values to the offload tier and back, for any device and tier.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/program/needs.h"
#include "trireme/tier/copy_lane.h"

#include <c10/core/Storage.h>

#include <deque>
#include <vector>

namespace trireme::tier {

/// One rank's copies. A value is moved by its storages: tensors and saved tensors that use them
/// stay, without bytes, until the bytes are copied back.
///
/// Device bytes are freed in release_next() and allocated in begin_next(), both on the caller's
/// thread and in its memory, so that memory use depends on the program alone and not on how fast
/// the copies are (trireme/simulate/place_copies.h).
class ValueCopies {
 public:
  using Key = program::ValueKey;
  /// When copies ran, in the order in which the program names them.
  struct Spans {
    std::deque<CopyLane::Span> out, in;
  };

  virtual ~ValueCopies() = default;
  ValueCopies() = default;
  ValueCopies(const ValueCopies&) = delete;
  ValueCopies& operator=(const ValueCopies&) = delete;

  /// Starts to copy all `storages` out. Throws Error when the offload tier is full.
  virtual void offload(Key key, std::vector<c10::Storage> storages) = 0;
  /// Frees the device bytes of the oldest copy out that was not released yet; later compute is
  /// ordered after the end of that copy. Returns the value's key.
  virtual Key release_next() = 0;
  /// The same for any value whose copy out was not released yet.
  virtual void release(Key key) = 0;
  /// Queues a value to be copied back; begin_next() takes them in this order.
  virtual void prefetch(Key key) = 0;
  /// Allocates device bytes for the next queued value and starts its copy in. Returns its key.
  virtual Key begin_next() = 0;
  /// Orders later compute after the value's copy in, if that is under way, and frees its allocation
  /// in the offload tier.
  virtual void await(Key key) = 0;

  /// Like await(), but the allocation in the offload tier stays: for values that do not change.
  virtual void await_copy(Key key) = 0;
  /// Frees the device bytes of a value whose copy in has begun and whose offload allocation stays,
  /// after all compute queued so far. The value may be prefetched again.
  virtual void let_go(Key key) = 0;
  /// Starts to copy such a value out to its allocation; released like any other.
  virtual void write_back(Key key) = 0;
  /// Allocates device bytes for a value whose offload allocation stays, without copying it in:
  /// compute overwrites all of it.
  virtual void take(Key key) = 0;

  /// Drops all values and copies: after an error.
  virtual void abandon() noexcept = 0;

  /// Blocks until all copies have ended.
  virtual void drain() = 0;
  /// Times of all copies since the last call. After drain().
  virtual Spans take_spans() = 0;

  /// Bytes copied out since the last call.
  virtual Bytes take_moved() = 0;
  /// Bytes in use in the offload tier, and their peak.
  virtual Bytes offload_used() const = 0;
  virtual Bytes offload_peak() const = 0;
};

}  // namespace trireme::tier
