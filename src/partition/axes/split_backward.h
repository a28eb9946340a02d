// Backwards in two parts: how many passes the gradients of weights are behind on every rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

#include <optional>

namespace trireme::partition {

struct Delayed {
  std::optional<plan::Plan> plan;  ///< nothing where that makes no step shorter
  bool lacks_memory = false;       ///< some rank, for some of what could be behind
};
/// The plan with as much behind as ZB-H1 has (program::with_split_backward), on ranks that lack the
/// memory as much as they have room for, and from there one more or one fewer on one stage as long
/// as that helps. Nothing where the plan cannot have split backwards: see plan::compile().
std::optional<Delayed> with_weights_delayed(const Question& question, const plan::Plan& whole);

}  // namespace trireme::partition
