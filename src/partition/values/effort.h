// Estimates of how long a question takes to plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

namespace trireme::partition {

/// Layers up to which exhaustive copy searches are fast.
inline constexpr int kFewLayers = 32;

/// Whether layers x stages are above the number from which a plan takes seconds or more.
inline bool is_large(const Problem& problem) {
  constexpr int kMost = 2000;
  return problem.chain.length() * problem.stages > kMost;
}

}  // namespace trireme::partition
