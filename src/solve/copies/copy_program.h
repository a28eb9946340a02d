// Programs of whole tensors that offload and prefetch.
//
// What leaves does so right after its last use of the first forward pass; what an action has no
// room for waits for it. What comes back does so in the order of need, each tensor as early as
// every action from there on fits beside all that is back by then. So a program fits whatever the
// lanes do. Tensors come back in the reverse of the order in which they left, so no copy in begins
// before the last copy out has ended; then nothing is ever won by starting later, and the time of
// the same decisions can only fall with a faster link or a larger budget.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "copy_search.h"

#include "trireme/plan/plan.h"
#include "trireme/program/action.h"
#include "trireme/solve/solve.h"

#include <vector>

namespace trireme::solve {

/// A CopyStep with the actions that do its layers again or backward.
struct CopyPart {
  int first = 0, last = 0;
  bool taped = false;
  bool leaves = false;
  std::vector<program::Action> backward;
};
std::vector<CopyPart> parts_of(const std::vector<CopyStep>& steps, const RedoTable* redo);

struct CopyProgram {
  program::StageProgram program;
  Bytes needed;  ///< the least budget that it fits: of every action, with all away that may be
  Bytes moved;   ///< that go to the offload tier
};
/// Parts follow each other and cover the problem's layers. `program` is made for the budget, or for
/// `needed` if that is more; what is made again right before its backward is a retape.
CopyProgram copy_program(const Problem& problem, const std::vector<CopyPart>& parts);

/// Why no program of a kind fits whose leanest one these parts are: what they need with copies that
/// take no time.
plan::Infeasible infeasible_with_copies(const Problem& problem,
                                        const std::vector<CopyPart>& leanest);

}  // namespace trireme::solve
