// Samples recordings of steps, one of which is reported at the end of a run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "step/recorder.h"

#include <cstddef>
#include <map>
#include <vector>

namespace trireme::runtime {

/// At most kMost recordings, spread evenly over all steps so far except the first, which is slow
/// and kept only while it is the only one. Which steps are kept depends on their number alone, so
/// every rank keeps the same ones without communication.
class StepSamples {
 public:
  static constexpr std::size_t kMost = 8;

  /// Adds the recording of the next step.
  void add(Recording recording);

  /// Indices of the kept steps among those added, from 0, ascending.
  std::vector<std::size_t> places() const;

  /// One of places().
  const Recording& at(std::size_t place) const { return kept_.at(place); }

 private:
  std::map<std::size_t, Recording> kept_;
  std::size_t added_ = 0, stride_ = 1;
};

}  // namespace trireme::runtime
