// Copy lanes between device and offload tier, as the search for offload plans tracks them. The out
// lane is followed forward in time from the start of the step, the in lane backward in time from
// its end: there a tensor "leaves" when its copy in begins. So both sides obey the same rules, and
// a first forward pass and the backward pass can be planned together, layer by layer.
//
// Two kinds. FluidLane frees bytes continuously, the relaxation in which Beaumont et al. 2021
// (POFO) plan; TensorLane frees a whole tensor when its copy has ended, which is what replay does.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "label_screen.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace trireme::solve {

enum class Side { kOut, kIn };
/// Roles of two lanes that are compared: the one that may lag, and the other one.
enum class Role { kLagging, kOther };

using Levels = Sketch::Levels;
/// Ascending from 0.
using LevelBytes = std::array<std::int64_t, Sketch::kLevels>;

/// A clock with bytes that are still leaving (being copied). Both kinds offer the same functions.
class FluidLane {
 public:
  /// What all lanes of one direction share.
  struct Track {
    explicit Track(double bytes_per_s) : rate(bytes_per_s) {}
    double rate;
  };
  /// An item's copy begins with the run of forwards that reads it first; its bytes count as held
  /// until that run has ended (POFO's convention).
  static constexpr bool kFreesWithinRun = false;

  double now() const { return now_; }
  /// Time passes.
  void pass(const Track& track, double duration) {
    now_ += duration;
    left_ -= track.rate * duration;
  }
  /// Time passes until at most `limit` >= 0 bytes are leaving.
  void wait(const Track& track, std::int64_t limit) {
    const double over = left_ - static_cast<double>(limit);
    if (over > 0) pass(track, over / track.rate);
  }
  /// An item begins to leave.
  void leave(const Track&, std::int64_t size) { left_ += static_cast<double>(size); }
  /// A run of layers has ended.
  void settle() { left_ = std::max(left_, 0.0); }
  /// How long it must idle until nothing is worse on it than on `other`, clocks aside.
  double lag(const Track& track, const FluidLane& other, Side) const {
    return std::max(0.0, left_ - other.left_) / track.rate;
  }
  /// Seconds until no more than these amounts are leaving. A lane lags another one by at least the
  /// largest difference at any of them. Unused for fluid lanes: all 0.
  Levels levels(const Track&, const LevelBytes&, Side, Role) const { return {}; }
  /// Bytes that are leaving; 0 where levels are unused.
  std::int64_t leaving(const Track&) const { return 0; }
  /// Idle time at the turn from forward to backward: the last copy out ends before the first copy
  /// in begins, and all copies out end before the turn.
  static double at_turn(const Track& out_track, const FluidLane& out, const Track& in_track,
                        const FluidLane& in) {
    return out.left_ / out_track.rate + in.left_ / in_track.rate;
  }
  /// Bytes of further items that can go out and come back, if what is left takes at most `forward`
  /// and `backward` seconds, `both` in all.
  static double movable(const Track& out_track, const FluidLane& out, const Track& in_track,
                        const FluidLane& in, double forward, double backward, double both);
  /// Time that copies out may share with the backward of layers that are decided on, if what is
  /// left to decide takes `rest` seconds and nothing of it leaves.
  static double shared(const FluidLane&, const FluidLane&, double) { return 0; }

 private:
  double now_ = 0;
  double left_ = 0;  // negative within a run: what could have been copied in addition
};

class TensorLane {
 public:
  /// The copies that lanes of one direction ever began, each with the one before it: lanes that
  /// branch share their past.
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
  /// An item leaves after the first layer that reads it; its bytes are free once it has left.
  static constexpr bool kFreesWithinRun = true;

  double now() const { return now_; }
  void pass(const Track&, double duration) { now_ += duration; }
  void wait(const Track& track, std::int64_t limit);
  void leave(Track& track, std::int64_t size);
  void settle() {}
  double lag(const Track& track, const TensorLane& other, Side side) const;
  Levels levels(const Track& track, const LevelBytes& bytes, Side side, Role role) const;
  std::int64_t leaving(const Track& track) const;
  /// The least idle time at the turn: a copy in begins when all copies out have ended, but these
  /// may go on after the turn.
  static double at_turn(const Track&, const TensorLane& out, const Track&, const TensorLane& in) {
    return std::max(0.0, std::max(0.0, out.free_ - out.now_) + (in.free_ - in.now_));
  }
  static double movable(const Track& out_track, const TensorLane& out, const Track& in_track,
                        const TensorLane& in, double forward, double backward, double both);
  static double shared(const TensorLane& out, const TensorLane& in, double rest) {
    return std::max(0.0, std::min(out.free_ - out.now_ - rest, in.now_ - in.free_));
  }

 private:
  static constexpr double kNever = -std::numeric_limits<double>::infinity();

  double now_ = 0;
  double free_ = kNever;  // when the last copy ends
  std::int32_t newest_ = -1;
};

inline double FluidLane::movable(const Track& out_track, const FluidLane& out,
                                 const Track& in_track, const FluidLane& in, double forward,
                                 double backward, double) {
  return std::min(out_track.rate * forward - out.left_, in_track.rate * backward - in.left_);
}

// Copies in follow all copies out, but these may reach into the backward.
inline double TensorLane::movable(const Track& out_track, const TensorLane& out,
                                  const Track& in_track, const TensorLane& in, double,
                                  double backward, double both) {
  const double out_busy = std::max(0.0, out.free_ - out.now_);
  const double in_busy = std::max(0.0, in.free_ - in.now_);
  return std::min(in_track.rate_ * (backward - in_busy),
                  (both - out_busy - in_busy) / (1 / out_track.rate_ + 1 / in_track.rate_));
}

// Copies end in the order in which they began: what is leaving at any time are the newest.
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
  // For each of its copies, newest first: the bytes then leaving, and until when the other lane has
  // as many.
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
  // How long the in lane has been idle is how far copies out may reach into the backward.
  if (side == Side::kIn && newest_ >= 0) {
    lag = std::max(lag, (free_ - now_) - (other.newest_ < 0 ? 0 : other.free_ - other.now_));
  }
  return lag;
}

inline Levels TensorLane::levels(const Track& track, const LevelBytes& bytes, Side side,
                                 Role role) const {
  Levels until{};
  std::int64_t leaving = 0;
  std::size_t level = 0;
  for (std::int32_t k = newest_; k >= 0 && track.copy(k).end > now_; k = track.copy(k).before) {
    leaving += track.copy(k).size;
    for (; level < until.size() && leaving > bytes[level]; ++level)
      until[level] = track.copy(k).end - now_;
  }
  // As in lag(): how long the lane has been idle counts, too.
  if (side == Side::kIn && newest_ >= 0) until[0] = free_ - now_;
  if (side == Side::kIn && newest_ < 0) until[0] = role == Role::kOther ? 0 : kNever;
  return until;
}

inline std::int64_t TensorLane::leaving(const Track& track) const {
  std::int64_t leaving = 0;
  for (std::int32_t k = newest_; k >= 0 && track.copy(k).end > now_; k = track.copy(k).before)
    leaving += track.copy(k).size;
  return leaving;
}

}  // namespace trireme::solve
