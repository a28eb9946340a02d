// Backwards in two parts: how many passes the gradients of weights are behind on every rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

#include <optional>

namespace trireme::partition {

/// The plan with as much behind as ZB-H1 has (program::with_split_backward), on ranks that lack the
/// memory as much as they have room for, and from there one more or one fewer on one stage as long
/// as that helps. Nothing where that makes no step shorter, or where the plan cannot: see
/// plan::compile().
std::optional<plan::Plan> with_weights_behind(const Question& question, const plan::Plan& plan);

/// The answer of `planner`, its plan with gradients of weights behind where that is faster. Where a
/// rank lacks memory for all that would wait, `planner` is asked for a plan with room for it as
/// well, and the faster one is taken.
Answer with_split_backward(const Question& question, const Planner& planner);

}  // namespace trireme::partition
