// Breadth-first micro-batches: those of a group run through one layer before any of them goes on to
// the next, so that streamed weights are copied in once for the group.
//
// Pudipeddi et al. 2020 (L2L) run whole batches layer by layer, Sheng et al. 2023 (FlexGen) blocks
// of them, for the same reason.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"

namespace trireme::program {

/// Number of groups of `group` micro-batches; the last has what is left.
int groups_of(int micro_batches, int group);

/// Expands a program whose micro-batch g stands for the g-th group: adjacent actions of one layer,
/// with the loads and messages that they need and the actions that follow from them, run for one
/// micro-batch of the group after the other. Where a layer sends to a neighbour and then receives
/// from it, two groups alternate. Gradients of a layer are added in the order of the micro-batches,
/// as without groups.
Program in_groups(const Program& program, int group, int micro_batches);

/// The same program with every tape recomputed right before its backward, so that a group holds one
/// tape at a time; in its place the output is kept, or offloaded as the tape was. A tape whose
/// backward follows at once stays as it is. For programs in which a tape's input stays with it.
StageProgram with_late_tapes(StageProgram program);

}  // namespace trireme::program
