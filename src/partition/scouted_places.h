// Where weights and state of a pipeline are, and how its micro-batches are grouped, chosen by plans
// of one quick solver; the others are then asked about that choice alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/planner.h"

#include <functional>
#include <optional>

namespace trireme::partition {

/// For a question of several stages, of any solver, with something of that left open: the fastest
/// of the plan by `joint`, for which `search` chooses all of it, and of those of all solvers with
/// the same choice, by `plan`. Nothing for other questions, and where `joint` has no plan.
std::optional<Answer> with_scouted_places(const Question& question,
                                          const std::function<Answer(const Question&)>& search,
                                          const std::function<Answer(const Question&)>& plan);

}  // namespace trireme::partition
