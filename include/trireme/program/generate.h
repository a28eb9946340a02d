// From stages to programs: the programs of stages that need no solver, and the lowering that turns
// an order of passes into actions with transfers, reductions and the optimizer step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"
#include "trireme/schedule/order.h"

#include <vector>

namespace trireme::program {

/// Every layer taped: nothing is recomputed.
StageProgram keep_all(int first_layer, int last_layer);
/// Every layer checkpointed: its input is kept, its tape recomputed right before its backward.
StageProgram recompute_all(int first_layer, int last_layer);
/// Untaped forwards, inputs dropped at once; no backward.
StageProgram evaluate(int first_layer, int last_layer);

/// Whether the step's end belongs to the program.
enum class StepEnd { kNone, kReduceClipStep };

/// What lower() turns into a program. Stages must cover 1..L without gaps; stage k is chunk k of
/// the order and runs on rank k unless `placement` says otherwise.
struct Lowering {
  std::vector<StageProgram> stages;
  schedule::Order order;
  schedule::Placement placement = {};  ///< empty: stage k on rank k
  StepEnd end = StepEnd::kReduceClipStep;
  std::vector<Mix> mixes = {};  ///< by stage; empty: there are none
};

/// The program of all ranks. Adds load_input, load_target, read_loss, sends, receives and the end
/// of the step. A forward pass begins with its loads or its receive_input; sends and read_loss
/// follow right after their value was made; receive_gradient stands right before the first backward
/// that needs it, so that recomputation and copies back overlap with the transfer of the gradient.
/// Between two stages on one rank the values simply stay. In a pass "I" every backward is a
/// backward_input, whose backward_weights stand in the pass "W". Throws InputError when stages and
/// order do not fit together.
Program lower(const Lowering& lowering);

}  // namespace trireme::program
