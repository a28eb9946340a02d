// Programs of whole tensors that offload and prefetch, and what replay with copy lanes says of
// them.
//
// What leaves does so right after its last use of the first forward pass; what an action has no
// room for waits for it. What comes back does so in the order of need, each tensor as early as
// every action from there on fits with all bytes that are there by then. So a program fits whatever
// the lanes do, and since tensors come back in the reverse of the order in which they left, no copy
// in begins before the last copy out has ended: time and waits can only fall with a faster link
// and, as copies in move forward, with a larger budget.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "copy_search.h"

#include "trireme/program/action.h"
#include "trireme/solve/solve.h"

#include <optional>
#include <vector>

namespace trireme::solve {

/// A step with its backward actions, for programs that come from elsewhere than the search.
struct CopyPart {
  int first = 0, last = 0;
  bool taped = false;
  bool leaves = false;
  std::vector<program::Action> backward;
};
std::vector<CopyPart> parts_of(const std::vector<CopyStep>& steps, const RedoTable* redo);

/// The parts as a program, or what they need: some action does not fit even if all copies were
/// instant. Parts follow each other and cover the problem's layers.
struct CopyProgram {
  program::StageProgram program;
  Bytes needed;  ///< most bytes of any action with everything away that may be
};
CopyProgram copy_program(const Problem& problem, const std::vector<CopyPart>& parts);

/// What replay says of a program when nothing may exceed the budget; nothing if it does.
std::optional<Solution> judged_with_copies(const Problem& problem, program::StageProgram program);

/// Whether anything can be moved at all.
bool can_copy(const Problem& problem);

}  // namespace trireme::solve
