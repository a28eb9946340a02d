// Programs from one label per layer: keep the tape, the input or neither.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage_policy.h"

#include <vector>

namespace trireme::partition {

/// How layers between kept inputs are recomputed: the last `taped` of them in one run, those before
/// them one by one from their inputs, or all in one run.
struct Again {
  int taped = 1;
  bool from_inputs = true;
};

/// The program of the layers from `first` on with these labels: kForwardTape, kForwardKeep or,
/// after one of the latter two, kForward. `latest` applies to the group that the backward list
/// meets first, which may be recomputed while the stage waits for its gradient.
program::StageProgram labelled(int first, const std::vector<program::Op>& labels, Again latest = {},
                               Again others = {});

/// All programs that fit, over every choice per layer of keeping the tape, the input or neither,
/// and a few ways to recompute between kept inputs. Empty for too many layers. Programs that tie in
/// time differ once a wait hides recomputation, and solvers for time break ties arbitrarily.
std::vector<program::StageProgram> short_stage_programs(const chain::Chain& chain,
                                                        const StageQuestion& question);

}  // namespace trireme::partition
