// Makes the plan that a job trains with, and its forecast.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch.h"

#include "trireme/chain/chain.h"
#include "trireme/chain/platform.h"
#include "trireme/config/job.h"
#include "trireme/model/chain.h"
#include "trireme/partition/planner.h"
#include "trireme/plan/plan.h"
#include "trireme/simulate/copy_points.h"
#include "trireme/simulate/simulate.h"
#include "trireme/tier/offload_store.h"

#include <ostream>

namespace trireme::app {

/// Parts of a rank's offload tier, by what they hold: together simulate::RankResult::offloaded of
/// the forecast.
struct OffloadStores {
  tier::OffloadStoreOptions values, weights, optimizer;
};

/// The same on every rank, but for `copies`, `stores` and `optimizer_parts`.
struct TrainPlan {
  plan::Plan plan;
  chain::Chain chain;              ///< without layers where no costs were needed
  bool has_earlier_costs = false;  ///< as in MeasuredChain
  chain::Platform platform;        ///< of one pipeline
  /// The simulated step, with Detail::kTimeline; without ranks where there are no costs.
  simulate::Simulation forecast;
  std::vector<Bytes> predicted_peaks;  ///< by stage, exactly as the runtime frees and takes bytes
  simulate::CopyPoints copies;         ///< this rank's
  OffloadStores stores;                ///< this rank's
  /// How offloaded optimizer state comes to the device in parts, where this rank has some.
  chain::StateParts optimizer_parts;

  bool has_forecast() const { return !forecast.ranks.empty(); }
};

enum class Costs { kWhereNeeded, kAlways };

/// Collective. A job with budgets, with an offload tier, with a solver that needs costs or with
/// `plan.file` is profiled first, unless that was done before; then rank 0 plans. Other jobs get
/// keep_all or recompute_all, cut by estimated work, unless costs are asked for. Progress is
/// printed to `out`.
///
/// Throws DoesNotFit when no plan keeps the budgets, InputError for a plan file or cut that does
/// not fit the job.
TrainPlan make_train_plan(const config::JobSpec& job, const model::ChainModel& model,
                          const RankContext& context, Costs costs, std::ostream& out);

/// Sets what the job says of a planner's question, whatever its chain, ranks and shape.
void take_options(const config::JobSpec& job, partition::Question& question);

/// Throws InputError for an unknown solver, before anything is measured for it.
void require_solver(const config::JobSpec& job);

}  // namespace trireme::app
