// Why a plan is as it is: what the search judged on the way to it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/plan/plan.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace trireme::partition {

/// What an answer rests on.
struct Reasons {
  /// One dimension of the search.
  struct OfAxis {
    std::string name;
    bool is_open = false;   ///< the question leaves it to the planner
    bool is_used = false;   ///< by the answer
    double least_gain = 0;  ///< of a step, for which it is worth using
    std::string reason;     ///< why that much
    /// The fastest decision that was judged without it, where the answer uses it (an ablation).
    std::optional<plan::Alternative> without = {};
  };
  std::vector<OfAxis> axes = {};
  std::vector<plan::Alternative> judged = {};  ///< every decision, in the order of the search
  /// Decisions that were not judged, since a bound said that they would not be faster.
  std::size_t passed_over = 0;
};

}  // namespace trireme::partition
