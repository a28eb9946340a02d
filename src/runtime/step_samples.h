// Recordings of a few steps of a run, of which one is drawn at its end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/runtime/recorder.h"

#include <cstddef>
#include <map>
#include <vector>

namespace trireme::runtime {

/// At most kMost recordings, spread evenly over all steps added so far but the first, which is slow
/// and kept only while it is alone. Which steps are kept depends on their number alone, so every
/// rank keeps the same ones without a message.
class StepSamples {
 public:
  static constexpr std::size_t kMost = 8;

  /// The recording of the next step.
  void add(Recording recording);

  /// Places of the kept steps among those added, from 0, ascending.
  std::vector<std::size_t> places() const;

  /// One of places().
  const Recording& at(std::size_t place) const { return kept_.at(place); }

 private:
  std::map<std::size_t, Recording> kept_;
  std::size_t added_ = 0, stride_ = 1;
};

}  // namespace trireme::runtime
