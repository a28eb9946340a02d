// The best schedule of a small graph by trying everything.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/poet/solve.h"

#include <optional>

namespace trireme::poet {

enum class Least { kTime, kEnergy, kMemory };

/// What the search may try.
struct Tries {
  Least least = Least::kEnergy;
  bool may_recompute = true;
  bool may_copy = true;
  bool late_copies_out = true;  ///< copies out at any time; else right after a value was first made
  bool any_order = true;  ///< between two first computations others in any order, each as often as
                          ///< wanted; else once and in the graph's order, all but those without
                          ///< inputs in memory
};

/// The best schedule, and what the search itself says that it costs.
struct Best {
  graph::Schedule schedule;
  Seconds time;
  Joules energy;
  Bytes peak;
};

/// Of all orders of computations, copies and drops; graphs of up to 12 nodes, with lanes beside
/// compute up to 8. Nothing if none keeps to memory and deadline. It knows the rules of schedules
/// (graph/schedule.h) and nothing of replay() or of programs.
std::optional<Best> search(const graph::Problem& problem, const Tries& tries);

}  // namespace trireme::poet
