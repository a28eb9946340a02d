// Values on their way to the offload tier and back, whatever the device and the tier are made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/program/needs.h"
#include "trireme/tier/copy_lane.h"

#include <c10/core/Storage.h>

#include <deque>
#include <vector>

namespace trireme::tier {

/// One rank's copies. A value is moved by its storages: tensors and saved tensors that stand in
/// them stay as they are, without bytes, until the bytes are back.
///
/// Device bytes are freed in release_next() and taken in begin_next(), both on the caller's thread
/// and in its memory, so that what is held depends on the program alone and not on how fast the
/// copies are (docs: simulate/copy_points.h).
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

  /// Starts the copy out of all `storages`. Throws Error when the offload tier is full.
  virtual void offload(Key key, std::vector<c10::Storage> storages) = 0;
  /// Frees the device bytes of the oldest copy out that was not let go of yet; what compute does
  /// from here on comes after that copy's end. Returns the value's key.
  virtual Key release_next() = 0;
  /// Names the next value to come back; begin_next() takes them in this order.
  virtual void prefetch(Key key) = 0;
  /// Takes device bytes for the value and starts its copy in. Returns the value's key.
  virtual Key begin_next() = 0;
  /// What compute does from here on comes after the value's copy in, if it is on its way; frees its
  /// place in the offload tier.
  virtual void await(Key key) = 0;

  /// Like await(), but the value's place in the offload tier stays: for values that do not change.
  virtual void await_copy(Key key) = 0;
  /// Frees the device bytes of a value that has begun to come and whose place stays, after all that
  /// compute was given so far. It may be named to come back again.
  virtual void let_go(Key key) = 0;
  /// Starts the copy out of such a value to the place that it has; released like any other.
  virtual void write_back(Key key) = 0;
  /// Takes device bytes for a value whose place stays, but not what it was: compute writes all of
  /// it.
  virtual void take(Key key) = 0;

  /// Forgets everything: after an error.
  virtual void abandon() noexcept = 0;

  /// Until all copies have ended.
  virtual void drain() = 0;
  /// Of all copies since the last call. After drain().
  virtual Spans take_spans() = 0;

  /// Bytes that left since the last call.
  virtual Bytes take_moved() = 0;
  /// Bytes that the offload tier holds, and the most that it has held.
  virtual Bytes offload_used() const = 0;
  virtual Bytes offload_peak() const = 0;
};

}  // namespace trireme::tier
