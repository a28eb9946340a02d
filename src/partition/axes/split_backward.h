// Split backward (zero bubble): by how many passes every rank defers its weight gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

#include <optional>

namespace trireme::partition {

struct Delayed {
  std::optional<plan::Plan> plan;  ///< empty where that makes the step no shorter
  bool lacks_memory = false;       ///< some rank, for all it could defer
};
/// The plan with weight gradients deferred as in ZB-H1 (schedule::one_f_one_b_with), by fewer
/// passes on ranks that lack the memory, then improved by one more or one fewer on one stage as
/// long as that helps. Empty where the plan cannot have split backwards: see plan::compile().
std::optional<Delayed> with_weights_delayed(const Question& question, const plan::Plan& whole);

}  // namespace trireme::partition
