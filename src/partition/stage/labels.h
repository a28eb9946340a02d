// Programs by a word for each layer: whether its tape, its input or neither is kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage_policy.h"

#include <vector>

namespace trireme::partition {

/// How layers between kept inputs are run again: the last `taped` of them at once, those before
/// them one by one from their inputs, or all at once.
struct Again {
  int taped = 1;
  bool from_inputs = true;
};

/// The program of the layers from `first` on whose forwards are these: kForwardTape, kForwardKeep
/// or, behind one of the latter two, kForward. `latest` is for the group that the backward list
/// meets first, which may run while the stage waits for its gradient.
program::StageProgram labelled(int first, const std::vector<program::Op>& labels, Again latest = {},
                               Again others = {});

/// Every choice, layer by layer, of keeping the tape, the input or neither, and a few ways to run
/// what is between two kept inputs again; those that fit. Nothing if there are too many layers.
/// A tie in time is none once recomputation hides behind a wait, and solvers for time break ties as
/// they like.
std::vector<program::StageProgram> short_stage_programs(const chain::Chain& chain,
                                                        const StageQuestion& question);

}  // namespace trireme::partition
