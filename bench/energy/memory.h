// Memories at which solvers of graphs are compared.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "solvers.h"

#include "trireme/graph/problem.h"

namespace trireme::poet {

/// Memory `share` percent of the way from what the widest node needs to what keep_all takes.
inline void limit_memory(graph::Problem& problem, int share) {
  problem.memory = Bytes(0);
  const Bytes most = replay(problem, keep_all(problem.graph)).outcome.peak;
  const Bytes least = widest(problem.graph).bytes;
  problem.memory = least + Bytes((most - least).count() * share / 100);
}

}  // namespace trireme::poet
