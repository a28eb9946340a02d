// Why a plan was chosen: what the search simulated, axis by axis.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/plan/plan.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace trireme::partition {

/// The search's log, summarized.
struct Reasons {
  /// One dimension of the search.
  struct OfAxis {
    std::string name;
    bool is_open = false;   ///< left to the planner by the question
    bool is_used = false;   ///< by the answer
    double least_gain = 0;  ///< share of a step that using it must gain
    std::string reason;     ///< why this threshold
    /// The fastest simulated decision without it, where the answer uses it (an ablation).
    std::optional<plan::Alternative> without = {};
  };
  std::vector<OfAxis> axes = {};
  std::vector<plan::Alternative> judged = {};  ///< every decision, in the order of the search
  /// Decisions skipped because their lower bound was not below the best step.
  std::size_t passed_over = 0;
};

}  // namespace trireme::partition
