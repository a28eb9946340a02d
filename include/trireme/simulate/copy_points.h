// Actions at which the runtime frees the device memory of offloaded values and takes memory for
// prefetched ones.
//
// In the simulator copies end at their own times. A runtime that freed and took memory whenever a
// copy happens to end would hold different bytes in every run. It does so at fixed actions instead,
// chosen here from the simulated times: what a rank holds, and its peak, then depend on the program
// alone, whatever the real speed of the copies. Slow copies cost time, never bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/program/action.h"
#include "trireme/simulate/simulate.h"
#include "trireme/simulate/validate.h"

#include <vector>

namespace trireme::simulate {

/// What happens before an action, in this order: releases (device memory of copies out is freed),
/// streamed weights come into the room that the action before has freed, copies in begin. Both
/// kinds of copies are handled in program order, so counts are enough. A release waits until its
/// copy has ended.
struct CopyPoint {
  int releases = 0;
  int begins = 0;

  bool operator==(const CopyPoint&) const = default;
};

/// One rank's copies.
struct CopyPoints {
  std::vector<CopyPoint> before;  ///< by action
  Bytes peak;          ///< most bytes held with these points, static and channel bytes included
  Bytes offload_peak;  ///< peak of values in the offload tier, from the timeline
  Bytes idle;          ///< held between the last action and the next step's first one
};

/// Copies out are released before the first action that the simulation begins after their end, or
/// as soon as memory is short; copies in begin before the action during which they begin in the
/// simulation, or before the first action that needs them, in either case when there is room.
/// `timeline` is the program's simulation with Detail::kTimeline and without a fault. O(actions).
CopyPoints copy_points(const program::Program& program, const Setting& setting,
                       const Simulation& timeline, int rank);

/// Whether the actions offload any values.
bool has_copies(const std::vector<program::Action>& actions);

}  // namespace trireme::simulate
