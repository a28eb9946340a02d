// revolve: optimal checkpointing of equal steps with a number of slots (Griewank and Walther 2000,
// algorithm 799).
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/layer_range.h"
#include "trireme/program/action.h"

#include <cstdint>

namespace trireme::solve {

/// Least number of forwards, beyond the one taped forward of each step, that reverse `steps` >= 1
/// equal steps when `slots` >= 1 inputs may be kept at once, the first step's among them. The
/// closed form: r n - C(s + r, s + 1) with the least r for which C(s + r, s) >= n.
std::int64_t revolve_forwards(int steps, int slots);

/// A program of these layers that does it, each taped right before its backward.
program::StageProgram revolve_program(chain::LayerRange layers, int slots);

}  // namespace trireme::solve
