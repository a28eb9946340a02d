// SPDX-License-Identifier: Apache-2.0
#include "planned.h"

#include "exit_code.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/io/sizes.h"
#include "trireme/partition/planner.h"
#include "trireme/report/text.h"
#include "trireme/simulate/place_copies.h"

#include <algorithm>
#include <iostream>

namespace trireme::app {
namespace {

constexpr const char* kOffloadTier = "in its offload tier";

chain::Platform platform_of(const PlanFiles& files, const plan::Plan& plan);
bool moves_anything(const plan::Plan& plan);
/// Sets the stages' budgets from the platform, their static bytes from the plan or, where it has
/// none, from the chain; and sums bytes by rank.
void take_up(Planned& planned);
/// Throws InputError where a rank's static bytes are too few for the streamed weights on the
/// device.
void require_windows(const Planned& planned, const std::string& file);
/// The platform with unlimited memory, since budgets are checked separately.
chain::Platform without_limits(chain::Platform platform);
plan::Infeasible overflow(const Planned& planned, int rank, const simulate::RankResult& result);

}  // namespace

Planned load_planned(const PlanFiles& files) {
  Planned planned;
  planned.plan = plan::load_plan(files.plan);
  planned.chain = chain::sharded(chain::load_chain(files.chain), planned.plan.optimizer_shards);
  try {
    plan::require_same_chain(planned.plan, planned.chain);
    plan::require_state(planned.plan, planned.chain);
  } catch (const InputError& error) {
    throw InputError(concat(files.plan, ": ", error.what()));
  }
  planned.platform = platform_of(files, planned.plan);
  take_up(planned);
  require_windows(planned, files.plan);
  try {
    planned.clocks = partition::clocks_of(planned.platform, planned.plan);
    planned.program = plan::compile(planned.plan, planned.chain);
  } catch (const InputError& error) {
    throw InputError(concat(files.plan, ": ", error.what()));
  }
  const chain::Platform free = without_limits(planned.platform);
  const auto fault = simulate::validate(planned.program, planned.setting(free));
  if (fault) throw InputError(concat(files.plan, ": ", simulate::to_text(*fault)));
  return planned;
}

simulate::Simulation simulated(const Planned& planned, simulate::Detail detail) {
  simulate::Simulation simulation = simulate::simulate(planned.program, planned.setting(), detail);
  ensure(!simulation.fault, simulation.fault ? simulate::to_text(*simulation.fault) : "");
  return simulation;
}

std::optional<plan::Infeasible> over_budget(const Planned& planned,
                                            const simulate::Simulation& simulation) {
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    const simulate::RankResult& result = simulation.ranks[rank];
    const chain::RankSpec& spec = planned.platform.ranks[rank];
    const bool device = spec.memory > Bytes(0) && result.peak.size > spec.memory;
    if (device || result.offloaded.all() > spec.offload_capacity())
      return overflow(planned, static_cast<int>(rank), result);
  }
  return std::nullopt;
}

int report_over_budget(const plan::Infeasible& infeasible, const PlanFiles& files, bool json) {
  if (json) std::cout << plan::to_json(infeasible);
  const bool is_offload = infeasible.where == kOffloadTier;
  const bool has_platform = !files.platform.empty();
  const char* const key = is_offload ? "host and disk" : has_platform ? "memory" : "budget_bytes";
  std::cerr << "trireme: " << visible(has_platform ? files.platform : files.plan) << ": " << key
            << " of rank " << infeasible.rank << (is_offload ? " are " : " is ")
            << report::exact_text(infeasible.available)
            << ", in which this plan does not fit; it needs "
            << report::exact_text(infeasible.needed) << " " << infeasible.where << ". Give " << key
            << (is_offload ? " together" : "") << ": "
            << io::size_of_at_least(infeasible.least_budget)
            << ", or make a plan for less (trireme plan)\n";
  return kInfeasible;
}

namespace {

chain::Platform platform_of(const PlanFiles& files, const plan::Plan& plan) {
  const int ranks = plan::ranks_of(plan);
  if (!files.platform.empty()) {
    chain::Platform platform = chain::load_platform(files.platform);
    if (platform.ranks.size() < static_cast<std::size_t>(ranks))
      throw InputError(concat(files.platform, ": has ", platform.ranks.size(), " ranks, but ",
                              files.plan, " needs ", ranks));
    return platform;
  }
  if (moves_anything(plan))
    throw InputError(concat(files.plan,
                            ": moves values to the offload tier, so the rates of copies "
                            "are needed: give --platform platform.yaml"));
  chain::Platform platform = chain::uniform_platform(ranks, Bytes(0));
  for (const plan::StagePlan& stage : plan.stages) {
    Bytes& memory = platform.ranks[static_cast<std::size_t>(stage.rank)].memory;
    memory = std::max(memory, stage.budget);
  }
  return platform;
}

bool moves_anything(const plan::Plan& plan) {
  for (const plan::StagePlan& stage : plan.stages) {
    if (stage.offloaded_optimizer > Bytes(0) || !stage.streamed.empty()) return true;
    for (const program::StageProgram* const one : stage.mix.programs(stage.program))
      if (simulate::has_copies(one->forward) || simulate::has_copies(one->backward)) return true;
  }
  return false;
}

void take_up(Planned& planned) {
  const auto ranks = static_cast<std::size_t>(plan::ranks_of(planned.plan));
  planned.static_bytes.resize(ranks);
  planned.offloaded_optimizer = plan::offloaded_optimizer(planned.plan);
  planned.streamed = plan::streamed_weights(planned.plan, planned.chain);
  std::vector<Bytes> windows = plan::update_windows(planned.plan);
  std::vector<std::vector<int>> streamed(ranks);
  for (plan::StagePlan& stage : planned.plan.stages) {
    const auto rank = static_cast<std::size_t>(stage.rank);
    stage.budget = planned.platform.ranks[rank].memory;
    const auto saved = [&] {  // the stages of a rank share one window for weights
      return partition::saved_bytes(planned.chain, streamed[rank], planned.plan.weights_at_once);
    };
    const Bytes before = saved();
    streamed[rank].insert(streamed[rank].end(), stage.streamed.begin(), stage.streamed.end());
    // A plan's own static bytes account for tied weights, which the chain counts with each use.
    if (stage.static_bytes == Bytes(0))
      stage.static_bytes = partition::static_bytes(planned.chain, stage.program.first_layer,
                                                   stage.program.last_layer) -
                           stage.offloaded_optimizer - (saved() - before) +
                           std::exchange(windows[rank], Bytes(0));
    planned.static_bytes[rank] += stage.static_bytes;
  }
}

void require_windows(const Planned& planned, const std::string& file) {
  const std::vector<std::vector<int>> streamed = plan::streamed_layers(planned.plan);
  for (std::size_t rank = 0; rank < streamed.size(); ++rank) {
    std::vector<chain::OffloadWeights> weights;
    for (const int layer : streamed[rank])
      weights.push_back(planned.chain.layer(layer).may_leave());
    const Bytes window = chain::weights_window(std::move(weights), planned.plan.weights_at_once);
    if (window > planned.static_bytes[rank])
      throw InputError(concat(file, ": static_bytes of rank ", rank, " are ",
                              planned.static_bytes[rank].count(), ", but the streamed weights of ",
                              planned.plan.weights_at_once, " layers at a time take ",
                              window.count(), ": leave static_bytes out to have them counted"));
  }
}

chain::Platform without_limits(chain::Platform platform) {
  for (chain::RankSpec& rank : platform.ranks) {
    rank.memory = Bytes(0);
    rank.host = Bytes(std::int64_t{1} << 62);
    rank.disk = Bytes(0);
  }
  return platform;
}

plan::Infeasible overflow(const Planned& planned, int rank, const simulate::RankResult& result) {
  const chain::RankSpec& spec = planned.platform.ranks[static_cast<std::size_t>(rank)];
  plan::Infeasible infeasible{.rank = rank,
                              .needed = result.peak.size,
                              .available = spec.memory,
                              .least_budget = result.peak.size,
                              .where = ""};
  bool first = true;
  for (const plan::StagePlan& stage : planned.plan.stages) {
    if (stage.rank != rank) continue;
    if (first) infeasible.first_layer = stage.program.first_layer;
    infeasible.last_layer = stage.program.last_layer;
    first = false;
  }
  if (spec.memory > Bytes(0) && result.peak.size > spec.memory) {
    if (result.peak.action) infeasible.where = concat("at ", program::to_text(*result.peak.action));
    return infeasible;
  }
  infeasible.needed = infeasible.least_budget = result.offloaded.all();
  infeasible.available = spec.offload_capacity();
  infeasible.where = kOffloadTier;
  return infeasible;
}

}  // namespace
}  // namespace trireme::app
