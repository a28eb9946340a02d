// How long the parts of a step take where they are computed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/device/marks.h"

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

namespace trireme::runtime {

/// Intervals between marks in the device's work, added up once the step is over.
class StepClock {
 public:
  explicit StepClock(std::unique_ptr<device::Marks> marks) : marks_(std::move(marks)) {}

  device::Marks& marks() { return *marks_; }

  void begin() {
    intervals_.clear();
    marks_->begin();
  }
  /// An interval from that mark until now; where it lies inside another one, whose total is
  /// `around`, it is no part of that.
  void add(Seconds& total, device::Marks::Mark from, Seconds* around = nullptr) {
    intervals_.push_back({&total, around, from, marks_->set()});
  }
  /// Waits until the device has done all, then adds every interval to its total, which must still
  /// be there.
  void settle() {
    marks_->settle();
    for (const Interval& interval : intervals_) {
      const Seconds time = to_seconds(marks_->time(interval.to) - marks_->time(interval.from));
      *interval.total += time;
      if (interval.around != nullptr) *interval.around -= time;
    }
    intervals_.clear();
  }

 private:
  struct Interval {
    Seconds *total, *around;
    device::Marks::Mark from, to;
  };
  std::unique_ptr<device::Marks> marks_;
  std::vector<Interval> intervals_;
};

/// Adds the time of its own life to a total; of a life inside that of another one, it is taken from
/// the other's, `around`.
class Stopwatch {
 public:
  Stopwatch(StepClock& clock, Seconds& total, Seconds* around = nullptr)
      : clock_(clock), total_(total), around_(around), from_(clock.marks().set()) {}
  ~Stopwatch() { clock_.add(total_, from_, around_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  StepClock& clock_;
  Seconds& total_;
  Seconds* around_;
  device::Marks::Mark from_;
};

/// What an action waits for in its midst, which is no part of its own time.
class Waits {
 public:
  /// Nobody times them.
  Waits() = default;
  Waits(StepClock& clock, Seconds& total, Seconds& around)
      : clock_(&clock), total_(&total), around_(&around) {}

  template <class Wait>
  void time(const Wait& wait) const {
    std::optional<Stopwatch> watch;
    if (clock_ != nullptr) watch.emplace(*clock_, *total_, around_);
    wait();
  }

 private:
  StepClock* clock_ = nullptr;
  Seconds *total_ = nullptr, *around_ = nullptr;
};

}  // namespace trireme::runtime
