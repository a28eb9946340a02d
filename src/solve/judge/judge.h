// What the solvers share: judging a program by replay, saying why none fits, and refusing an
// argument.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/plan/plan.h"
#include "trireme/program/action.h"
#include "trireme/solve/solve.h"

#include <optional>
#include <string_view>

namespace trireme::solve {

/// The program with what replay says of it. A program that cannot run is a bug of its solver:
/// LogicError.
Solution judged(const Problem& problem, program::StageProgram program);
/// The same where actions and copies wait for memory; nothing if the budget or the offload tier is
/// exceeded even so.
std::optional<Solution> judged_with_copies(const Problem& problem, program::StageProgram program);
/// The program if it keeps the budget, else why none does: it is the leanest of its kind.
Result within_budget(const Problem& problem, program::StageProgram leanest);
plan::Infeasible infeasible(const Problem& problem, const program::StageProgram& leanest);

/// Throws InputError: the solver cannot read what followed its name. `known` is what may follow it,
/// "k", or "" for nothing.
[[noreturn]] void refuse_argument(std::string_view solver, std::string_view argument,
                                  std::string_view known = "");

}  // namespace trireme::solve
