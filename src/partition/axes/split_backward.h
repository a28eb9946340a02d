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

/// The same, and whether a rank lacks memory for some of what could be behind; no plan where that
/// makes no step shorter.
struct Delayed {
  std::optional<plan::Plan> plan;
  bool lacks_memory = false;
};
std::optional<Delayed> with_weights_delayed(const Question& question, const plan::Plan& whole);

}  // namespace trireme::partition
