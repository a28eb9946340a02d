// Where weights and state are, and how micro-batches are grouped, chosen by plans that are quick to
// make; the others are then asked about that choice alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

#include <optional>

namespace trireme::partition {

/// The same question for a scout: of several stages and any solver, for `joint`; of one stage,
/// where solvers search for copies on a long chain, with fewer labels. Nothing where that would
/// take as long.
std::optional<Question> quicker(const Question& question);

/// The fastest of the scout's plan, for which `search` chooses all that is left open, and of those
/// of the question's own solvers with the same choice, by `plan`. Where there is no scout, or none
/// has a plan, what `search` says.
Answer with_scouted_places(const Question& question, const Planner& search, const Planner& plan);

}  // namespace trireme::partition
