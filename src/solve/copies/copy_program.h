// Programs that offload and prefetch whole tensors, built from a plan's decisions.
//
// A tensor is offloaded right after its last use in the first forward pass; an action without room
// waits for that. Tensors are prefetched in the order of need, each as early as every action from
// there on fits next to all that is back by then. So a program fits whatever the copy rates.
// Tensors come back in the reverse of the order in which they left, so no copy in begins before the
// last copy out has ended; then starting later never helps, and the time of the same decisions can
// only fall with a faster link or a larger budget.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "copy_search.h"

#include "trireme/plan/plan.h"
#include "trireme/program/action.h"
#include "trireme/solve/solve.h"

#include <vector>

namespace trireme::solve {

/// A CopyStep with the actions that recompute its layers and run them backward.
struct CopyPart {
  int first = 0, last = 0;
  bool taped = false;
  bool leaves = false;
  std::vector<program::Action> backward;
};
std::vector<CopyPart> parts_of(const std::vector<CopyStep>& steps, const RedoTable* redo);

struct CopyProgram {
  program::StageProgram program;
  Bytes needed;  ///< the least budget that it fits, if at every action all is offloaded that may be
  Bytes moved;   ///< bytes offloaded
};
/// Parts follow each other and cover the problem's layers. `program` is made for the budget, or for
/// `needed` if that is more; what is recomputed right before its backward is a retape.
CopyProgram copy_program(const Problem& problem, const std::vector<CopyPart>& parts);

/// Why no program of a kind fits, whose leanest one is `leanest`: what it needs if copies take no
/// time.
plan::Infeasible infeasible_with_copies(const Problem& problem,
                                        const std::vector<CopyPart>& leanest);

}  // namespace trireme::solve
