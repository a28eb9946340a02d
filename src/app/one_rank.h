// Planning a whole chain for one rank: what a solver's program costs there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/chain/platform.h"
#include "trireme/plan/plan.h"
#include "trireme/simulate/simulate.h"

#include <string>
#include <variant>

namespace trireme::app {

/// The question.
struct OneRank {
  chain::Chain chain;
  chain::Platform platform;  ///< one rank; its memory is the budget, static bytes inside
  int micro_batches = 1;
  int slots = 500;

  const chain::RankSpec& rank() const { return platform.ranks.front(); }
};

/// Parameters, gradients and optimizer of the layers first..last.
Bytes static_bytes(const chain::Chain& chain, int first, int last);

/// The budget from which on nothing has to be run twice or moved.
Bytes keep_all_budget(const OneRank& question);

/// A step without recomputation or waits.
Seconds ideal_step(const OneRank& question);

/// A plan with its predictions, or why there is none; both with static bytes inside.
using Answer = std::variant<plan::Plan, plan::Infeasible>;

/// Throws InputError when there is no such solver or it does not take this chain.
Answer answer(const OneRank& question, const std::string& solver);

/// The plan as it runs on the rank.
simulate::Simulation simulated(const OneRank& question, const plan::Plan& plan,
                               simulate::Detail detail);

}  // namespace trireme::app
