// Times the parts of a step on the device.
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
  /// Adds the interval from that mark until now; where it lies inside another one, whose total is
  /// `around`, it is subtracted from that.
  void add(Seconds& total, device::Marks::Mark from, Seconds* around = nullptr) {
    intervals_.push_back({&total, around, from, marks_->set()});
  }
  /// Waits until the device has finished, then adds every interval to its total, which must still
  /// exist.
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

/// Adds its lifetime to a total; inside another stopwatch, subtracts it from that one's total,
/// `around`.
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

/// Times waits within an action, which are not part of the action's own time.
class Waits {
 public:
  /// Waits are not timed.
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
