// Recomputation overlapped with the wait for the gradient: the same work in a better order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stage_policy.h"

namespace trireme::partition {

/// The program with as much recomputation as memory allows moved to before its first backward,
/// where a stage that is not the last waits for a gradient. A moved retape becomes a whole taped
/// forward, since the layer above still reads its output; otherwise the time stays the same. It
/// keeps no more and still fits question.memory. Programs with copies are returned unchanged. The
/// first `left_alone` recomputed runs stay in place: what moves first takes the room of later runs,
/// which may be worth more.
program::StageProgram recompute_early(const chain::Chain& chain, const StageQuestion& question,
                                      program::StageProgram program, int left_alone = 0);

/// Time at speed 1 of the backward list before the first backward.
Seconds ahead(const chain::Chain& chain, const program::StageProgram& program);

}  // namespace trireme::partition
