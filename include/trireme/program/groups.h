// Micro-batches in groups: what one of them does with a layer, the others do before any goes on to
// the next layer, so that weights that come for every use come once for the group.
//
// Pudipeddi et al. 2020 (L2L) run whole batches layer by layer, Sheng et al. 2023 (FlexGen) blocks
// of them, for the same reason.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"

namespace trireme::program {

/// How many groups of `group` micro-batches there are; the last has what is left.
int groups_of(int micro_batches, int group);

/// The program whose micro-batch g stands for the g-th group, as it runs: neighbouring actions of
/// one layer, and what belongs to them (loads and messages that they need, what follows from them),
/// for one micro-batch of the group after the other. Where a layer's messages go to a neighbour and
/// then come from there, two groups take turns. Gradients of a layer are added in the order of the
/// micro-batches, as without groups.
Program in_groups(const Program& program, int group, int micro_batches);

/// The same program with every tape made right before its backward, from its input, which is kept
/// instead, or moved as the tape was: a group then holds one tape at a time. A tape whose backward
/// follows at once stays as it is. For programs in which a tape's input stays with it.
StageProgram with_late_tapes(StageProgram program);

}  // namespace trireme::program
