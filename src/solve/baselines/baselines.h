// The solvers without tables, and segmented programs, which several of them make.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"
#include "trireme/solve/solve.h"

#include <string_view>
#include <vector>

namespace trireme::solve {

Result solve_keep_all(const Problem& problem, std::string_view argument);
Result solve_recompute_all(const Problem& problem, std::string_view argument);
Result solve_periodic(const Problem& problem, std::string_view argument);
Result solve_sqrt(const Problem& problem, std::string_view argument);
Result solve_revolve(const Problem& problem, std::string_view argument);
Result solve_min_peak(const Problem& problem, std::string_view argument);
Result solve_exhaustive(const Problem& problem, std::string_view argument);

/// Kept outputs split first..last into segments: the input of each is kept, and each but the last
/// is recomputed, taped, before its backward; the last is taped in the forward. `starts` are the
/// segments' first layers, ascending, the problem's first layer among them.
program::StageProgram segmented(const Problem& problem, const std::vector<int>& starts);

}  // namespace trireme::solve
