// From a job to what its ranks run: the plan, its program, what it is predicted to cost, and what
// each rank opens for it. Made once, before the first step, and only read from then on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/chain/platform.h"
#include "trireme/config/job.h"
#include "trireme/graph/graph.h"
#include "trireme/graph/plan.h"
#include "trireme/model/chain.h"
#include "trireme/plan/plan.h"
#include "trireme/program/action.h"
#include "trireme/ranks/rank_context.h"
#include "trireme/simulate/place_copies.h"
#include "trireme/simulate/simulate.h"
#include "trireme/tier/offload_store.h"

#include <optional>
#include <ostream>
#include <variant>
#include <vector>

namespace trireme::prepare {

/// How one rank's offload tier is divided. Together they are simulate::RankResult::offloaded of the
/// forecast.
struct OffloadStores {
  tier::OffloadStoreOptions values, weights, optimizer;
};

/// What a plan is predicted to cost, and what that rests on. The same on every rank.
struct Forecast {
  chain::Chain chain;
  chain::Platform platform;  ///< of one pipeline
  /// A step in steady state, with Detail::kTimeline; of a run at the usual clocks, which it has.
  simulate::Simulation simulation;
  std::vector<Bytes> peaks;        ///< by rank, exactly as the runtime allocates and frees
  bool has_earlier_costs = false;  ///< as MeasuredChain::is_earlier
};

/// The plan of a model that is a graph.
struct GraphPlan {
  graph::Graph graph;  ///< measured
  graph::Plan plan;    ///< of one micro-batch
};

/// Everything that a run needs from its plan. Plan, program and forecast are the same on every
/// rank.
struct Prepared {
  plan::Plan plan;
  program::Program program;          ///< plan::compile(), with its copies placed
  std::optional<Forecast> forecast;  ///< nothing where the plan needed no costs
  /// For a model that is a graph. The forecast's chain then has its nodes for layers, and `plan`
  /// one stage with the actions of one micro-batch.
  std::optional<GraphPlan> graph;

  // This rank's:
  OffloadStores stores;
  /// How offloaded optimizer state is cut into parts on its way through the device.
  chain::StateParts optimizer_parts;
};

/// Why a job cannot run: no plan fits the device of a rank, or the given one its offload tier.
struct Misfit {
  enum class Tier { kDevice, kOffload };

  plan::Infeasible infeasible;
  Tier tier = Tier::kDevice;
  /// Whether nothing less than the least budget works.
  bool is_exact = false;
};

/// What is known of a job before it is planned, from the choice of its shape.
struct Preparation {
  enum class Costs { kWhereNeeded, kAlways };

  Costs costs = Costs::kWhereNeeded;
  /// The tapes that the job leaves open: lean where full ones fit no shape. Nothing: still open.
  std::optional<bool> lean_tapes = {};
  /// Rank 0's plan of the chosen shape, where it was planned thoroughly.
  std::optional<plan::Plan> plan = {};
  /// Nothing is run: the forecast is for the clocks that the plan names.
  bool plans_alone = false;
};

/// Every rank. A job with budgets, with an offload tier, with a solver that needs costs or with
/// `plan.file` is profiled first, unless that was done before; then rank 0 plans. Other jobs get
/// keep_all or recompute_all, cut by estimated work, unless `known.costs` asks for costs. Progress
/// is told on `out` by rank 0. Throws InputError for a plan file or cut that does not fit the job.
std::variant<Prepared, Misfit> prepare(const config::JobSpec& job, const model::ChainModel& model,
                                       const ranks::RankContext& context, Preparation known,
                                       std::ostream& out);

}  // namespace trireme::prepare
