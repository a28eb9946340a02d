// SPDX-License-Identifier: Apache-2.0
#include "trireme/program/retape.h"

namespace trireme::program {

StageProgram with_retapes(StageProgram program, const chain::Chain& chain) {
  int next = program.last_layer;  // whose backward is next
  for (Action& action : program.backward) {
    if (action.op == Op::kBackward) next = action.layer - 1;
    if (action.op == Op::kForwardTape && action.layer == next && chain.layer(next).retape)
      action.op = Op::kRetape;
  }
  return program;
}

StageProgram with_whole_tapes(StageProgram program) {
  for (Action& action : program.backward) {
    if (action.op == Op::kRetape) action.op = Op::kForwardTape;
  }
  return program;
}

}  // namespace trireme::program
