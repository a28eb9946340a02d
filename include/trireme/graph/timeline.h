// A graph's step in the form in which steps of pipelines are simulated, measured and drawn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/graph/problem.h"
#include "trireme/graph/schedule.h"
#include "trireme/simulate/simulate.h"

namespace trireme::graph {

/// What a rank does with a schedule.
struct StepOfRank {
  int micro_batches = 1;  ///< one after the other, each when all copies of the last have ended
  Bytes fixed = {};       ///< held besides
  Seconds update{0};      ///< at the end of the step
};

/// The step of one rank, with its timeline; actions as in lower(). `replayed` is of the schedule,
/// without a fault.
simulate::Simulation timeline(const Problem& problem, const Schedule& schedule,
                              const Replayed& replayed, const StepOfRank& step = {});

/// The nodes but the input as layers, for what shows layers by name: a forward node's time is that
/// of a forward, a backward node's that of a backward.
chain::Chain as_chain(const Problem& problem);

}  // namespace trireme::graph
