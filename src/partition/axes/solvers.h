// Which solvers make programs: quick ones while everything else is searched, then all of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "choices.h"

#include <string>
#include <vector>

namespace trireme::partition {

/// The solver by which choices are compared, for each of which `auto` would take long: of several
/// stages `joint`; else the question's own.
std::string quick_solver(const Question& question);

/// The quick one and, for pipelines of few layers, those for which state and weights may well be in
/// other places: what is offloaded and what is run twice they weigh against each other by other
/// rules.
std::vector<std::string> solvers_to_start_with(const Question& question);

/// The same choices by quick solvers, on a long chain of one stage with a narrower search for
/// copies.
Choices quickly(const Question& question, Choices choices);
/// The same by the question's own.
Choices carefully(const Question& question, Choices choices);

/// Whether that is another matter.
bool has_quick_solvers(const Question& question);

}  // namespace trireme::partition
