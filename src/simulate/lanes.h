// Timing of one rank: its compute lane, its copy lanes out and in, and the bytes on its device.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/program/needs.h"
#include "trireme/simulate/replay.h"
#include "trireme/simulate/simulate.h"

#include <cstddef>
#include <vector>

namespace trireme::simulate {

using CopyKey = program::ValueKey;

struct Copy {
  CopyKey key;
  Bytes size;
  Seconds begin;  ///< for a copy that waits in the in lane: the earliest begin
  Seconds end;
};

/// First in, first out, without a node per entry and without memory while empty.
class CopyQueue {
 public:
  bool empty() const { return head_ == copies_.size(); }
  const Copy& front() const { return copies_[head_]; }
  void push(const Copy& copy) { copies_.push_back(copy); }
  void pop() {
    if (++head_ == copies_.size()) {
      copies_.clear();
      head_ = 0;
    }
  }
  auto begin() const { return copies_.begin() + static_cast<std::ptrdiff_t>(head_); }
  auto end() const { return copies_.end(); }

 private:
  std::vector<Copy> copies_;
  std::size_t head_ = 0;
};

/// Where the most bytes were held.
struct LanesPeak {
  Bytes size{-1};
  Seconds time;
  std::size_t index = 0;              ///< action that ran or was about to run
  std::size_t applied = 0;            ///< number of actions fully applied
  std::vector<Copy> leaving, coming;  ///< copies out in progress; copies in requested but not begun
};

/// A clock that follows one rank through its actions. The caller passes the bytes that the ledger,
/// for which every copy is instant, holds; the lanes add what is still being copied out and
/// subtract what has not yet been copied in.
class Lanes {
 public:
  /// Where to write copies and the memory curve; each may be null.
  struct Record {
    std::vector<Copy>* out = nullptr;
    std::vector<Copy>* in = nullptr;
    std::vector<Copy>* weights = nullptr;
    std::vector<Copy>* weights_out = nullptr;
    std::vector<MemoryPoint>* curve = nullptr;
  };

  Lanes(const CopyLanes& rates, Bytes held, const Record& record);

  Seconds now() const { return now_; }
  const LanesPeak& peak() const { return peak_; }
  Bytes moved() const { return moved_; }
  Seconds waited() const { return waited_; }  ///< time that compute waited for copies
  Seconds busy_out() const { return busy_out_; }
  Seconds busy_in() const { return busy_in_; }
  /// Whether a value may still be being copied in.
  bool copies_in() const { return !coming_.empty() || !arriving_.empty(); }

  /// The action that the next calls belong to; what may happen by now happens before it.
  void at(std::size_t index);
  /// Action number `index` is applied, takes no time, and leaves `held` bytes.
  void set(std::size_t index, Bytes held);
  /// Its effects are complete.
  void applied() { applied_ = index_ + 1; }
  /// Occupies the compute lane for `duration`; the bytes held are `during`, then `after`.
  void run(Bytes during, Bytes after, Seconds duration);
  void offload(const CopyKey& key, Bytes size);
  void prefetch(const CopyKey& key, Bytes size);
  /// Waits until the copy of the value has ended, if it is being copied in.
  void await(const CopyKey& key);
  /// Copies a layer's weights in once the lane is free; their device bytes are already counted.
  /// Returns the time at which the copy ends.
  Seconds fetch(int layer, Bytes size);
  /// Copies a layer's weights out; the caller frees their device bytes once it has ended. Returns
  /// the time at which it ends.
  Seconds leave(int layer, Bytes size);
  /// Other copies, whose device bytes are not counted here. Return the time at which the copy ends.
  Seconds occupy_in(Bytes size);
  Seconds occupy_out(Bytes size);
  /// Lets time pass.
  void wait_until(Seconds time) { advance(time); }

 private:
  Seconds next_event() const;
  void happen(Seconds time);
  void advance(Seconds time);
  /// kAtAnyPrice: also without room.
  enum class Room { kNeeded, kAtAnyPrice };
  void begin_copy_in(Room room);
  void set_level(Bytes level);
  void sample();
  Bytes total() const { return level_ + leaving_bytes_ - coming_bytes_; }

  CopyLanes rates_;
  Record record_;
  Seconds now_, out_free_, in_free_, waited_, busy_out_, busy_in_;
  Bytes level_, leaving_bytes_, coming_bytes_, moved_;
  CopyQueue leaving_, coming_;
  std::vector<Copy> arriving_;  // begun, perhaps ended
  bool no_room_ = false;        // the next copy in waits until bytes are freed
  std::size_t index_ = 0, applied_ = 0;
  LanesPeak peak_;
};

}  // namespace trireme::simulate
