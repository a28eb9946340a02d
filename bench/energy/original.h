// POET's program as its paper has it (ICML 2022, Algorithm 1), to compare with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "milp.h"

#include "trireme/graph/problem.h"

namespace trireme::poet {

/// Five binary columns for every pair of step and node, one for every step and edge. Copies take no
/// time, and none of the memory of the step that reads them.
Milp original_form(const graph::Problem& problem);

}  // namespace trireme::poet
