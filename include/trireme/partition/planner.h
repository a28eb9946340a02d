// The planner: a problem and what is settled of it in, one plan for all ranks out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"
#include "trireme/partition/reasons.h"

#include <optional>

namespace trireme::partition {

/// Throws InputError for an unknown solver, a cut that does not fit the chain, or a chain that a
/// solver cannot take.
Answer plan(const Question& question);

/// An answer, and what it rests on.
struct Explained {
  Answer answer;
  Reasons reasons;
};
/// The answer of plan() and the reasons for it. Throws as plan() does.
Explained explained_plan(const Question& question);

/// The same in a fraction of the time, its step usually a few percent longer, for a choice between
/// questions. Nothing where that would take as long as plan(), and Infeasible now and then where
/// plan() has one.
std::optional<Answer> quick_plan(const Question& question);

}  // namespace trireme::partition
