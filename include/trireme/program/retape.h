// Early-stop recomputation: where nothing reads a recomputed output, its tape is made without it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/program/action.h"

namespace trireme::program {

/// The same program with `retape` for every taped forward of the backward part whose output has
/// been read for the last time: after the backward of the layer above, and always for the stage's
/// last layer. Only for layers that cost less that way (LayerCost::retape).
///
/// torch.utils.checkpoint calls it early stopping.
StageProgram with_retapes(StageProgram program, const chain::Chain& chain);
/// The reverse: `forward_tape` for every `retape`.
StageProgram with_whole_tapes(StageProgram program);

}  // namespace trireme::program
