// Programs of stages with few layers, all of one kind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage_policy.h"

#include <vector>

namespace trireme::partition {

/// Every choice, layer by layer, of keeping the tape, the input or neither, and a few ways to run
/// what is between two kept inputs again; those that fit. Nothing if there are too many layers.
/// A tie in time is none once recomputation hides behind a wait, and solvers for time break ties as
/// they like.
std::vector<program::StageProgram> short_stage_programs(const chain::Chain& chain,
                                                        const StageQuestion& question);

}  // namespace trireme::partition
