// Writes into a program where the runtime frees the device memory of offloaded values, takes memory
// for prefetched ones, and waits for their copies.
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

/// Bytes of a rank whose copies are placed.
struct PlacedBytes {
  Bytes peak;          ///< most bytes held, static and channel bytes included
  Bytes offload_peak;  ///< peak of values in the offload tier, from the timeline
  Bytes idle;          ///< held between the last action and the next step's first one
};

struct PlacedCopies {
  program::Program program;
  std::vector<PlacedBytes> ranks;
};

/// Adds `release`, `copy_in` and `await` for every value that the program offloads and prefetches,
/// both kinds of copies in program order. A release stands before the first action that the
/// simulation begins after the copy's end, or where memory is short; a copy_in before the action
/// during which it begins in the simulation, or before the first action that needs it, in either
/// case where there is room. Releases stand before moves of streamed weights that precede the same
/// action, copies in after them. An await stands before the first action that needs the value.
///
/// `timeline` is the program's simulation with Detail::kTimeline and without a fault. O(actions).
PlacedCopies place_copies(const program::Program& program, const Setting& setting,
                          const Simulation& timeline);

/// Whether the actions offload any values.
bool has_copies(const std::vector<program::Action>& actions);

}  // namespace trireme::simulate
