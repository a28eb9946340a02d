// The solvers with activation offload: capuchin, offload and pofo.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/solve/solve.h"

#include <string_view>

namespace trireme::solve {

Result solve_capuchin(const Problem& problem, std::string_view argument);
Result solve_offload(const Problem& problem, std::string_view argument);
Result solve_pofo(const Problem& problem, std::string_view argument);

/// Calls one of these so that its programs have room for what stays of tapes that are offloaded
/// (LayerCost::tape_stays), of which its search knows nothing: it gets a budget that is less by all
/// that stays, which is little, or else copies nothing. `least_budget` of an Infeasible is then
/// enough, but may not be the least.
Result with_what_stays(const Problem& problem, std::string_view argument,
                       Result (*solve)(const Problem& problem, std::string_view argument));

}  // namespace trireme::solve
