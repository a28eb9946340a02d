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

/// What replay says of a program. A program that may not run is a defect of its solver: LogicError.
Solution judged(const Problem& problem, program::StageProgram program);
/// What replay says of a program when everything waits for room; nothing if it exceeds the budget
/// or the offload tier all the same.
std::optional<Solution> judged_with_copies(const Problem& problem, program::StageProgram program);
/// The program if it keeps the budget, else why nothing does, it being the leanest of its kind.
Result within_budget(const Problem& problem, program::StageProgram leanest);
plan::Infeasible infeasible(const Problem& problem, const program::StageProgram& leanest);

/// Throws InputError: the solver cannot read what followed its name. `known` is what may follow it,
/// "k", or "" for nothing.
[[noreturn]] void refuse_argument(std::string_view solver, std::string_view argument,
                                  std::string_view known = "");

}  // namespace trireme::solve
