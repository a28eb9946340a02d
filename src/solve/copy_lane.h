// What is on its way between device and outer tier, as a plan that is being made sees it. The out
// lane is followed forward in time from the start of the step, the in lane backward in time from its
// end: there a tensor "leaves" when its copy in begins, so that both sides obey the same rules, and
// a first forward pass and the backward pass can be planned together, layer by layer.
//
// Two kinds: FluidLane frees bytes continuously, the relaxation with which Beaumont et al. 2021
// (POFO) plan; TensorLane frees a whole tensor when its copy ends, which is what replay does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace trireme::solve {

/// A clock with bytes that are still leaving. Both kinds offer: time passes (`pass`), time passes
/// until at most `limit` >= 0 bytes are leaving (`wait`), an item begins to leave (`leave`),
/// `settle` ends a run of layers, and `lag`: how long this lane must idle until nothing is worse on
/// it than on `other` (clocks are not compared). For a lane that is followed from the end of the
/// step (`Side::kIn`) it also counts how long it has been idle: so much later may the turn come.
enum class Side { kOut, kIn };

class FluidLane {
 public:
  /// What all lanes of one direction share.
  struct Track {
    explicit Track(double bytes_per_s) : rate(bytes_per_s) {}
    double rate;
  };
  /// What leaves counts in full until the run of layers that reads it first has ended, though its
  /// copy begins with that run (POFO's convention, formulas of section 4.3).
  static constexpr bool kFreesWithinRun = false;

  double now() const { return now_; }
  void pass(const Track& track, double duration) {
    now_ += duration;
    left_ -= track.rate * duration;
  }
  void wait(const Track& track, std::int64_t limit) {
    const double over = left_ - static_cast<double>(limit);
    if (over > 0) pass(track, over / track.rate);
  }
  void leave(Track&, std::int64_t size) { left_ += static_cast<double>(size); }
  void settle() { left_ = std::max(left_, 0.0); }
  double lag(const Track& track, const FluidLane& other, Side) const {
    return std::max(0.0, left_ - other.left_) / track.rate;
  }

  /// Idle time at the turn: the last copy out ends before the first copy in begins.
  static double turn(const Track& out_track, const FluidLane& out, const Track& in_track,
                     const FluidLane& in) {
    return out.left_ / out_track.rate + in.left_ / in_track.rate;
  }

 private:
  double now_ = 0, left_ = 0;
};

class TensorLane {
 public:
  /// Tensors that ever left, each with the one before it: lanes share their pasts.
  class Track {
   public:
    explicit Track(double bytes_per_s) : rate_(bytes_per_s) {}

   private:
    friend class TensorLane;
    struct Copy {
      double end;
      std::int64_t size;
      std::int32_t before;
    };
    const Copy& copy(std::int32_t k) const { return copies_[static_cast<std::size_t>(k)]; }

    double rate_;
    std::vector<Copy> copies_;
  };
  /// An item leaves after the first layer that reads it, and its bytes may be used once it has left.
  static constexpr bool kFreesWithinRun = true;

  double now() const { return now_; }
  void pass(const Track&, double duration) { now_ += duration; }
  void wait(const Track& track, std::int64_t limit);
  void leave(Track& track, std::int64_t size);
  void settle() {}
  double lag(const Track& track, const TensorLane& other, Side side) const;

  /// At least this much idle time at the turn: a copy in begins when all copies out have ended.
  static double turn(const Track&, const TensorLane& out, const Track&, const TensorLane& in) {
    return std::max(0.0, std::max(0.0, out.free_ - out.now_) + (in.free_ - in.now_));
  }

 private:
  double now_ = 0;
  double free_ = -std::numeric_limits<double>::infinity();  // when the last copy ends
  std::int32_t newest_ = -1;
};

// The newest copies are the last to end: what is leaving at any time is a run of them.
inline void TensorLane::wait(const Track& track, std::int64_t limit) {
  std::int64_t leaving = 0;
  for (std::int32_t k = newest_; k >= 0 && track.copy(k).end > now_; k = track.copy(k).before) {
    leaving += track.copy(k).size;
    if (leaving > limit) {
      now_ = track.copy(k).end;
      return;
    }
  }
}

inline void TensorLane::leave(Track& track, std::int64_t size) {
  free_ = std::max(now_, free_) + static_cast<double>(size) / track.rate_;
  track.copies_.push_back({free_, size, newest_});
  newest_ = static_cast<std::int32_t>(track.copies_.size()) - 1;
}

inline double TensorLane::lag(const Track& track, const TensorLane& other, Side side) const {
  double lag = 0;
  // For each of its copies, newest first: until when does the other one hold as much?
  std::int64_t leaving = 0, others = 0;
  double until = 0;
  std::int32_t l = other.newest_;
  for (std::int32_t k = newest_; k >= 0 && track.copy(k).end > now_; k = track.copy(k).before) {
    leaving += track.copy(k).size;
    for (; others < leaving && l >= 0 && track.copy(l).end > other.now_; l = track.copy(l).before) {
      others += track.copy(l).size;
      until = track.copy(l).end - other.now_;
    }
    lag = std::max(lag, track.copy(k).end - now_ - (others < leaving ? 0 : until));
  }
  if (side == Side::kIn && newest_ >= 0) {
    lag = std::max(lag, (free_ - now_) - (other.newest_ < 0 ? 0 : other.free_ - other.now_));
  }
  return lag;
}

}  // namespace trireme::solve
