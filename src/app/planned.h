// A plan file together with its chain and platform.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/chain/platform.h"
#include "trireme/plan/plan.h"
#include "trireme/program/action.h"
#include "trireme/simulate/simulate.h"
#include "trireme/simulate/validate.h"

#include <optional>
#include <string>
#include <vector>

namespace trireme::app {

struct PlanFiles {
  std::string plan, chain, platform;  ///< platform empty: the plan's budgets, free links
};

struct Planned {
  plan::Plan plan;     ///< budgets are those of the platform
  chain::Chain chain;  ///< one replica's share
  chain::Platform platform;
  program::Program program;
  std::vector<Bytes> static_bytes, offloaded_optimizer;  ///< by rank
  std::vector<chain::OffloadWeights> streamed;           ///< as in simulate::Setting
  std::vector<simulate::LayerClocks> clocks;             ///< as in simulate::Setting

  /// On this platform, or on another.
  simulate::Setting setting() const { return setting(platform); }
  simulate::Setting setting(const chain::Platform& on) const {
    return {.chain = &chain,
            .platform = &on,
            .static_bytes = static_bytes,
            .offloaded_optimizer = offloaded_optimizer,
            .update_window = plan.update_window,
            .streamed = streamed,
            .weights_at_once = plan.weights_at_once,
            .replicas = plan.replicas,
            .optimizer_shards = plan.optimizer_shards,
            .clocks = clocks};
  }
};

/// Reads the files and validates the program, ignoring budgets. Throws InputError for a broken
/// file, a plan for another chain, or an action out of order.
Planned load_planned(const PlanFiles& files);

simulate::Simulation simulated(const Planned& planned, simulate::Detail detail);

/// The first rank over its budget; empty if all fit.
std::optional<plan::Infeasible> over_budget(const Planned& planned,
                                            const simulate::Simulation& simulation);

/// Reports that on standard error, with `json` also on standard output; returns the exit code.
int report_over_budget(const plan::Infeasible& infeasible, const PlanFiles& files, bool json);

}  // namespace trireme::app
