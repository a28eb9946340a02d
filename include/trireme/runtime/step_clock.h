// How long the parts of a step take where they are computed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/device/marks.h"

#include <chrono>
#include <memory>
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
  void add(Seconds& total, device::Marks::Mark from) {
    intervals_.push_back({&total, from, marks_->set()});
  }
  /// Waits until the device has done all, then adds every interval to its total, which must still
  /// be there.
  void settle() {
    marks_->settle();
    for (const Interval& interval : intervals_) {
      *interval.total += to_seconds(marks_->time(interval.to) - marks_->time(interval.from));
    }
    intervals_.clear();
  }

 private:
  struct Interval {
    Seconds* total;
    device::Marks::Mark from, to;
  };
  std::unique_ptr<device::Marks> marks_;
  std::vector<Interval> intervals_;
};

/// Adds the time of its own life to a total.
class Stopwatch {
 public:
  Stopwatch(StepClock& clock, Seconds& total)
      : clock_(clock), total_(total), from_(clock.marks().set()) {}
  ~Stopwatch() { clock_.add(total_, from_); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  StepClock& clock_;
  Seconds& total_;
  device::Marks::Mark from_;
};

}  // namespace trireme::runtime
