// When the runtime lets go of what was copied out and takes room for what comes back, as places in
// the program.
//
// In the simulator copies end at their own times. A runtime that freed and took bytes whenever a
// copy happens to end would hold different bytes in every run. It does so at places of the program
// instead, chosen here by the simulated times: then what a rank holds, and its peak, are a function
// of the program alone, whatever the copies' real speed. Slow copies cost time, never bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/program/action.h"
#include "trireme/simulate/simulate.h"
#include "trireme/simulate/validate.h"

#include <vector>

namespace trireme::simulate {

/// What happens before an action, in this order: releases, then streamed weights come for which the
/// action before it has made place, then copies in begin. Copies out are let go of in the order in
/// which the program names them, copies in begin in theirs, so numbers are enough. A release waits
/// until its copy has ended.
struct CopyPoint {
  int releases = 0;
  int begins = 0;

  bool operator==(const CopyPoint&) const = default;
};

/// One rank's copies.
struct CopyPoints {
  std::vector<CopyPoint> before;  ///< by action
  Bytes peak;          ///< most bytes held if copies happen so, static and channel inside
  Bytes offload_peak;  ///< of values in the offload tier, as the timeline has it
  Bytes idle;          ///< held between the last action and the next step's first one
};

/// Copies out are let go of before the first action that the simulation begins after their end, or
/// as soon as bytes are short; copies in begin before the action during which they begin in the
/// simulation, or before the first action that needs them, in either case when there is room.
/// `timeline` is the program's simulation with Detail::kTimeline and without a fault. O(actions).
CopyPoints copy_points(const program::Program& program, const Setting& setting,
                       const Simulation& timeline, int rank);

/// Whether the rank's actions move anything.
bool has_copies(const std::vector<program::Action>& actions);

}  // namespace trireme::simulate
