// Clocks: passes off the critical path run slower for nothing, all passes slower for a longer step
// (Chung et al. 2024, Perseus). Each stage has a clock for its forward and one for its backward
// passes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

namespace trireme::partition {

/// Whether a rank in use has another clock than its usual one.
bool has_clocks(const Problem& problem);

/// The plan with slower clocks where that takes less energy and the step ends by `deadline`, and
/// its predictions; the plan itself where no such clock is found, or where it ends later already.
/// A local search: in rounds, each stage and kind of pass goes to its next slower clock, those that
/// save the most energy for their time first; where none can, one goes to its next faster
/// clock and another to its next slower one.
plan::Plan with_clocks(const Problem& problem, plan::Plan plan, Seconds deadline);

}  // namespace trireme::partition
