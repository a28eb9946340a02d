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

}  // namespace trireme::solve
