// The table solvers: rotor and rotor_free.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/solve/solve.h"

#include <string_view>

namespace trireme::solve {

Result solve_rotor(const Problem& problem, std::string_view argument);
Result solve_rotor_free(const Problem& problem, std::string_view argument);

}  // namespace trireme::solve
