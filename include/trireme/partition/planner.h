// The planner: from a problem and the user's settings to one plan for all ranks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"
#include "trireme/partition/reasons.h"

#include <optional>
#include <vector>

namespace trireme::partition {

/// Throws InputError for an unknown solver, a cut that does not fit the chain, or a chain that a
/// solver cannot take.
Answer plan(const Question& question);

/// An answer and the search's reasons for it.
struct Explained {
  Answer answer;
  Reasons reasons;
};
/// plan() together with the reasons for its answer. Throws as plan() does.
Explained explained_plan(const Question& question);

/// With every plan that was simulated and fits the budgets, in the order of the search.
struct Explored : Explained {
  std::vector<plan::Plan> plans;
};
Explored explored_plan(const Question& question);

/// plan() in a fraction of the time, for comparing questions; the step is usually a few percent
/// longer. Returns nothing where it would take as long as plan(), and now and then Infeasible where
/// plan() finds a plan.
std::optional<Answer> quick_plan(const Question& question);

}  // namespace trireme::partition
