// The solvers of this module and what they share: judging a program by replay, and saying why none
// fits.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"
#include "trireme/solve/costs.h"
#include "trireme/solve/solve.h"

#include <string_view>
#include <vector>

namespace trireme::solve {

/// One row of the table of solvers. To add a solver: declare its function below, add a row in
/// solve.cpp.
struct Solver {
  std::string_view name;
  std::string_view arguments;  ///< what may follow the name, for messages: "k", "" for nothing
  Traits traits;
  /// `argument` is what followed the name, "" if nothing did; it throws InputError if it cannot
  /// read it.
  Result (*solve)(const Problem& problem, std::string_view argument);
};
const std::vector<Solver>& solvers();

/// Throws InputError: the solver takes no argument, or not this one.
[[noreturn]] void refuse_argument(std::string_view solver, std::string_view argument);

/// What replay says of a program. A program that may not run is a defect of its solver: LogicError.
Solution judged(const Problem& problem, program::StageProgram program);
/// The program if it keeps the budget, else why nothing does, it being the leanest of its kind.
Result within_budget(const Problem& problem, program::StageProgram leanest);
plan::Infeasible infeasible(const Problem& problem, const program::StageProgram& leanest);

/// Kept outputs split first..last into segments: the input of each is kept, and each but the last
/// is run again, taped, before its backward; the last is taped at once. `starts` are the segments'
/// first layers, ascending, the problem's first layer among them.
program::StageProgram segmented(const Problem& problem, const std::vector<int>& starts);

Result solve_keep_all(const Problem& problem, std::string_view argument);
Result solve_recompute_all(const Problem& problem, std::string_view argument);
Result solve_periodic(const Problem& problem, std::string_view argument);
Result solve_sqrt(const Problem& problem, std::string_view argument);
Result solve_revolve(const Problem& problem, std::string_view argument);
Result solve_min_peak(const Problem& problem, std::string_view argument);
Result solve_rotor(const Problem& problem, std::string_view argument);
Result solve_rotor_free(const Problem& problem, std::string_view argument);
Result solve_exhaustive(const Problem& problem, std::string_view argument);

}  // namespace trireme::solve
