// Choice of the solvers that make programs: quick ones during the search, then all of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "choices.h"

#include <string>
#include <vector>

namespace trireme::partition {

/// The solver that compares choices, since `auto` would take long for each: `joint` for several
/// stages, else the question's own.
std::string quick_solver(const Question& question);

/// The quick solver and, for short pipelines, those whose best placement of state and weights may
/// differ, since they weigh recomputation against offload by other rules.
std::vector<std::string> solvers_to_start_with(const Question& question);

/// The choices with the quick solver; for a long chain of one stage with a narrower copy search.
Choices quickly(const Question& question, Choices choices);
/// The choices with the question's own solver and breadth.
Choices carefully(const Question& question, Choices choices);

/// Whether quickly() and carefully() differ for the question.
bool has_quick_solvers(const Question& question);

}  // namespace trireme::partition
