// Micro-batches in groups, on ranks that stream weights: what comes for a use of a layer then comes
// once for a group, while what a micro-batch keeps between layers is kept for all of it.
//
// To the solvers a group is one large micro-batch of another chain, in which outputs weigh and
// layers take so many times as much, and what is there for a moment as much as before. Plans are
// carried over to the micro-batches as they run, and judged by the simulator as such.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

namespace trireme::partition {

/// For a question with a group of more than one: the fastest of `plan`'s plans for groups. The
/// least budget of one that lacks memory may be a little more than what would do.
/// Two threads call `plan`.
Answer plan_in_groups(const Question& question, const Planner& plan);

}  // namespace trireme::partition
