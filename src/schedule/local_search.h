// Better orders by moving one pass at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "instance.h"

#include <cstdint>

namespace trireme::schedule {

struct Annealing {
  int moves = 0;
  Ticks target = 0;  ///< no order is faster: where a step comes down to it, the search ends
  Ticks heat = 0;    ///< at the begin, in the units of its goal: ticks times passes times five
  std::uint64_t seed = 1;
};

struct FoundLists {
  Lists lists;
  Ticks step = 0;
};

/// The fastest order seen by simulated annealing from `start`, which must be sound and without
/// circles; no rank holds more than its room, if none does in `start`. What is annealed is not the
/// step alone, which many ways of the same length keep from changing, but a fifth of it plus the
/// mean over all passes of what the longest way through them is longer than the target.
FoundLists anneal(const Instance& instance, const Lists& start, const Annealing& how);

}  // namespace trireme::schedule
