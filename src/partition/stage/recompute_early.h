// Recomputation while the gradient is under way: the same work in a better order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage_policy.h"

namespace trireme::partition {

/// The program with as many of its second forwards as memory allows moved to before its first
/// backward, where a stage that is not the last waits for a gradient. A moved retape becomes a
/// whole taped forward, for the layer above still reads its output; else the time stays the same.
/// No more is kept, and it still fits question.memory. Programs that copy come back as they are.
/// The first `left_alone` runs of second forwards stay where they are: what moves first takes the
/// room of what comes later, which may be worth more.
program::StageProgram recompute_early(const chain::Chain& chain, const StageQuestion& question,
                                      program::StageProgram program, int left_alone = 0);

/// Seconds of its backward list at speed 1 that run before the first backward.
double ahead(const chain::Chain& chain, const program::StageProgram& program);

}  // namespace trireme::partition
