// Exhaustive search for the optimal program of a short chain: the oracle of the tests, also for
// stages that pause between forward and backward.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"
#include "trireme/solve/solve.h"

#include <optional>

namespace trireme::solve {

struct ExhaustiveLimits {
  /// Among memory-persistent programs only: an output may be dropped by the action right after the
  /// one that made it; everything else that is held stays until its backward.
  bool persistent = false;
  /// Most bytes at the pause, x[first-1] included.
  std::optional<Bytes> most_kept = std::nullopt;
};

/// A fastest program within the budget, nothing if there is none. Throws InputError for more than
/// 12 layers (10 among persistent programs): the states are 3^layers times layers.
std::optional<program::StageProgram> search_fastest(const Problem& problem,
                                                    const ExhaustiveLimits& limits = {});
/// A program with the least peak, whatever the budget; nothing if none keeps within `most_kept`.
std::optional<program::StageProgram> search_leanest(const Problem& problem,
                                                    const ExhaustiveLimits& limits = {});

}  // namespace trireme::solve
