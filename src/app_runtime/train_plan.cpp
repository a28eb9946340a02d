// SPDX-License-Identifier: Apache-2.0
#include "train_plan.h"

#include "does_not_fit.h"
#include "job_platform.h"
#include "measured_chain.h"
#include "policy_plan.h"
#include "rank_kinds.h"
#include "signals.h"

#include "trireme/comm/heartbeat.h"
#include "trireme/config/job_notes.h"
#include "trireme/core/text.h"
#include "trireme/partition/planner.h"
#include "trireme/profile/tied_weights.h"

#include <malloc.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

namespace trireme::app {
namespace {

/// Inputs of planning.
struct Asked {
  const config::JobSpec& job;
  const model::ChainModel& model;
  const RankContext& context;
  std::ostream& out;
};

/// Parts of a rank's optimizer state for updates at the end of a step: together at most what
/// its passes take.
chain::StateParts parts_between_steps(const TrainPlan& plan, std::size_t rank);
/// Collective.
bool needs_costs(const config::JobSpec& job, const RankContext& context);
void require_state(const plan::Plan& given, const chain::Chain& chain, const config::JobSpec& job);
/// Profiles the job with these tapes, full or lean.
MeasuredChain profiled(const std::string& tapes, const Asked& asked);
/// Plans a chain that was measured with these tapes, unless a plan is given.
TrainPlan with_costs(const std::string& tapes, const MeasuredChain& measured,
                     const std::optional<plan::Plan>& given, const Asked& asked);
/// The faster plan of full and lean tapes; lean ones are tried where full ones cannot all be kept.
TrainPlan with_best_tapes(const Asked& asked);
partition::Question question_of(const TrainPlan& plan, const config::JobSpec& job,
                                const model::ChainModel& model, int stages);
/// Rank 0 plans and broadcasts the plan. Throws DoesNotFit on every rank if there is none.
plan::Plan solved(const partition::Question& question, const Asked& asked);
/// Throws DoesNotFit where the forecast is over the budget of a rank or its offload tier.
void require_budgets(const TrainPlan& plan, const std::vector<simulate::CopyPoints>& copies,
                     const config::JobSpec& job, const RankDevice& device);
/// Divides a rank's offload tier as the forecast says, to the byte. What the passes move gets host
/// memory first.
OffloadStores stores_of(const config::JobSpec& job, const chain::RankSpec& rank,
                        const simulate::OffloadRoom& room);
void say(const TrainPlan& plan, std::ostream& out);

}  // namespace

TrainPlan make_train_plan(const config::JobSpec& job, const model::ChainModel& model,
                          const RankContext& context, Costs costs, std::ostream& out) {
  const std::string& tapes = job.memory.tapes;
  if (context.channel.rank() == 0)
    for (const std::string& note : config::job_notes(job)) out << "note: " << note << "\n";
  TrainPlan result;
  if (costs == Costs::kWhereNeeded && !needs_costs(job, context)) {
    result.plan = make_policy_plan(job, model, context.stages);
    result.plan.lean_tapes = tapes == "lean";
    return result;
  }
  require_solver(job);
  if (!job.plan.file.empty()) {
    result.plan = plan_from_file(job, model, context.stages);
    if (tapes != "auto") result.plan.lean_tapes = tapes == "lean";
    const std::string of_plan = result.plan.lean_tapes ? "lean" : "full";
    const Asked asked{job, model, context, out};
    result = with_costs(of_plan, profiled(of_plan, asked), result.plan, asked);
  } else if (tapes == "auto") {
    result = with_best_tapes({job, model, context, out});
  } else {
    const Asked asked{job, model, context, out};
    result = with_costs(tapes, profiled(tapes, asked), std::nullopt, asked);
  }
  if (context.channel.rank() == 0) {
    say(result, out);
    if (context.shares_cores)
      out << "note: ranks share cores here; expected times are for a core per thread\n";
  }
  return result;
}

namespace {

MeasuredChain profiled(const std::string& tapes, const Asked& asked) {
  config::JobSpec job = asked.job;
  job.memory.tapes = tapes;
  return measured_chain(job, asked.model, asked.context, asked.out);
}

TrainPlan with_costs(const std::string& tapes, const MeasuredChain& measured,
                     const std::optional<plan::Plan>& given, const Asked& asked) {
  const config::JobSpec& job = asked.job;
  const RankContext& context = asked.context;
  TrainPlan result;
  result.chain = measured.chain;
  result.has_earlier_costs = measured.is_earlier;
  result.platform = job_platform(job, context, context.stages, job.pipeline.replicas.value());
  set_speeds(result.platform, measured.speeds, job.pipeline.replicas.value());
  partition::Question question = question_of(result, job, asked.model, context.stages);
  if ((given ? given->optimizer_shards : optimizer_shards(job)) > 1)
    partition::shard_optimizer(question);
  if (given) require_state(*given, question.chain, job);
  result.plan = given ? *given : solved(question, asked);
  result.plan.lean_tapes = tapes == "lean";

  result.forecast = partition::simulated(question, result.plan, simulate::Detail::kTimeline);
  const program::Program program = plan::compile(result.plan);
  const simulate::Setting setting = partition::setting_of(question, result.plan);
  std::vector<simulate::CopyPoints> copies;
  for (int rank = 0; rank < static_cast<int>(program.ranks.size()); ++rank) {
    copies.push_back(simulate::copy_points(program, setting, result.forecast, rank));
    result.predicted_peaks.push_back(copies.back().peak);
  }
  require_budgets(result, copies, job, context.device);
  const int rank = context.channel.rank() % context.stages;
  const auto mine = static_cast<std::size_t>(rank);
  result.copies = std::move(copies.at(mine));
  result.stores =
      stores_of(job, result.platform.ranks[mine], result.forecast.ranks[mine].offloaded);
  const Bytes window = plan::update_windows(result.plan)[mine];
  result.optimizer_parts = window > Bytes(0) ? chain::state_parts(result.chain, window)
                                             : parts_between_steps(result, mine);
  return result;
}

chain::StateParts parts_between_steps(const TrainPlan& plan, std::size_t rank) {
  chain::StateParts parts;
  const Bytes passes = plan.predicted_peaks[rank] - plan.copies.idle;
  parts.size = std::min(chain::kLargestStatePart, (passes - chain::kUpdateScratch) / parts.at_once);
  return parts;
}

bool keeps_everything(const TrainPlan& plan) {
  if (plan.forecast.recompute > Seconds(0)) return false;
  const program::Program program = plan::compile(plan.plan);
  return std::none_of(program.ranks.begin(), program.ranks.end(),
                      [](const auto& actions) { return simulate::has_copies(actions); });
}

bool has_smaller_tapes(const chain::Chain& lean, const chain::Chain& full) {
  for (int i = 1; i <= full.length(); ++i)
    if (lean.layer(i).tape < full.layer(i).tape) return true;
  return false;
}

TrainPlan with_best_tapes(const Asked& asked) {
  const MeasuredChain measured = profiled("full", asked);
  std::optional<TrainPlan> full;
  std::optional<DoesNotFit> reason;
  try {
    full = with_costs("full", measured, std::nullopt, asked);
    if (keeps_everything(*full)) return std::move(*full);
  } catch (const DoesNotFit& error) {
    reason.emplace(error);
  }
  if (asked.context.channel.rank() == 0) asked.out << "with lean tapes: ";
  const MeasuredChain lean_measured = profiled("lean", asked);
  if (!has_smaller_tapes(lean_measured.chain, measured.chain)) {
    if (full) return std::move(*full);
    throw *reason;
  }
  try {
    TrainPlan lean = with_costs("lean", lean_measured, std::nullopt, asked);
    return full && full->forecast.step <= lean.forecast.step ? std::move(*full) : std::move(lean);
  } catch (const DoesNotFit& error) {
    if (full) return std::move(*full);
    const bool needs_less = error.infeasible().least_budget < reason->infeasible().least_budget;
    throw needs_less ? error : *reason;
  }
}

}  // namespace

void take_options(const config::JobSpec& job, partition::Question& question) {
  question.schedule = job.pipeline.schedule;
  question.solver = job.plan.solver;
  question.slots = job.plan.slots;
  question.optimizer_copies = partition::optimizer_copies_of(job.memory.optimizer);
  question.group = job.pipeline.group;
  question.splits_backward = job.pipeline.split_backward == "auto";
  question.clips = job.train.clip_norm > 0;
  question.updates = partition::updates_of(job.memory.updates);
}

void require_solver(const config::JobSpec& job) {
  const std::vector<std::string>& known = partition::known_solvers();
  const std::string name = job.plan.solver.substr(0, job.plan.solver.find(' '));
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  job.fail("plan.solver", concat("is ", job.plan.solver, did_you_mean(name, known),
                                 ", must be one of ", join(known, ", ")));
}

namespace {

bool needs_costs(const config::JobSpec& job, const RankContext& context) {
  const bool by_policy = job.plan.solver == "auto" || job.plan.solver == "keep_all" ||
                         job.plan.solver == "recompute_all";
  const tier::OffloadStoreOptions offload = offload_store_of(job);
  const bool has_budget = !job.memory.device_budget.empty() ||
                          (job.plan.solver == "auto" && context.device.default_budget() > Bytes(0));
  if (!by_policy || !job.plan.file.empty() || has_budget || offload.host + offload.disk > Bytes(0))
    return true;
  // Stages on different kinds of ranks get different shares of the work.
  return context.stages > 1 && !job.pipeline.cut && rank_kinds(job, context).count() > 1;
}

void require_state(const plan::Plan& given, const chain::Chain& chain, const config::JobSpec& job) {
  try {
    plan::require_state(given, chain);
    if (given.updates == program::UpdatePlace::kInBackward && job.train.clip_norm > 0)
      throw InputError(concat("updates: found 'in_backward', but train.clip_norm is ",
                              job.train.clip_norm,
                              ", which needs all gradients first; use 'in_forward' or "
                              "'at_end', or set train.clip_norm to 0"));
  } catch (const InputError& error) {
    throw InputError(concat(job.plan.file, ": ", error.what()));
  }
}

partition::Question question_of(const TrainPlan& plan, const config::JobSpec& job,
                                const model::ChainModel& model, int stages) {
  partition::Question question;
  question.chain = plan.chain;
  question.platform = plan.platform;
  question.stages = stages;
  question.micro_batches = config::micro_batches(job);
  question.replicas = job.pipeline.replicas.value();
  take_options(job, question);
  question.cut = cut_by_user(job, model, stages);
  question.shared_bytes = [tied = profile::TiedWeights(model, job.train)](
                              const partition::LayerRuns& runs) { return tied.shared(runs); };
  question.streamed = partition::streamed_layers_of(job.memory.weights, plan.chain);
  question.weights_at_once = std::nullopt;
  return question;
}

plan::Plan solved(const partition::Question& question, const Asked& asked) {
  const RankContext& context = asked.context;
  std::string text;
  const auto work = [&] {
    if (context.channel.rank() != 0) return;
    const StopsAtOnce nothing_to_save("a plan is made");
    asked.out << "planning ..." << std::endl;
    const partition::Answer answer = partition::plan(question);
    text = std::visit([](const auto& one) { return plan::to_json(one); }, answer);
    ::malloc_trim(0);  // the planner's tables, up to gigabytes, that malloc would keep
  };
  comm::run_with_heartbeat(context.channel, work, "planning");
  text = comm::broadcast(context.channel, comm::everyone(context.channel), text, "plan of rank 0");
  const io::Node document = io::parse(text, "plan");
  if (const auto why = document.find("infeasible"))
    throw DoesNotFit::on_device(asked.job, plan::read_infeasible(*why), context.device);
  return plan::read_plan(document);
}

void require_budgets(const TrainPlan& plan, const std::vector<simulate::CopyPoints>& copies,
                     const config::JobSpec& job, const RankDevice& device) {
  for (const plan::StagePlan& stage : plan.plan.stages) {
    const auto rank = static_cast<std::size_t>(stage.rank);
    const chain::RankSpec& spec = plan.platform.ranks[rank];
    plan::Infeasible over{.rank = stage.rank,
                          .first_layer = stage.program.first_layer,
                          .last_layer = stage.program.last_layer};
    if (spec.memory > Bytes(0) && copies[rank].peak > spec.memory) {
      over.needed = over.least_budget = copies[rank].peak;
      over.available = spec.memory;
      throw DoesNotFit::on_device(job, over, device);
    }
    const Bytes offload = plan.forecast.ranks[rank].offloaded.all();
    if (offload > spec.offload_capacity()) {
      over.needed = over.least_budget = offload;
      over.available = spec.offload_capacity();
      throw DoesNotFit::in_offload_tier(job, over);
    }
  }
}

OffloadStores stores_of(const config::JobSpec& job, const chain::RankSpec& rank,
                        const simulate::OffloadRoom& room) {
  tier::OffloadStoreOptions left = offload_store_of(job);
  left.host = rank.host;
  left.disk = rank.disk;
  const auto next = [&left](Bytes size) {
    const tier::OffloadStoreOptions part = part_of(left, size);
    left.host -= part.host;
    left.disk -= part.disk;
    return part;
  };
  OffloadStores stores;
  stores.values = next(room.values);
  stores.weights = next(room.weights);
  stores.optimizer = next(room.state);
  return stores;
}

void say(const TrainPlan& plan, std::ostream& out) {
  out << "plan: " << plan.plan.solver << (plan.plan.lean_tapes ? " with lean tapes, " : ", ")
      << to_text(plan.forecast.step) << " a step expected";
  if (plan.forecast.recompute > Seconds(0))
    out << ", " << to_text(plan.forecast.recompute) << " of it recomputation";
  const std::vector<Bytes> state_away = plan::optimizer_away(plan.plan);
  const std::vector<std::vector<int>> streamed = plan::streamed_layers(plan.plan);
  for (std::size_t rank = 0; rank < plan.predicted_peaks.size(); ++rank) {
    const Bytes budget = plan.platform.ranks[rank].memory;
    out << "; rank " << rank << ": peak " << to_text(plan.predicted_peaks[rank]);
    if (budget > Bytes(0)) out << " of " << to_text(budget);
    if (state_away[rank] > Bytes(0))
      out << ", " << to_text(state_away[rank]) << " of optimizer state in the offload tier";
    if (!streamed[rank].empty())
      out << ", weights of " << streamed[rank].size() << " layers in the offload tier";
  }
  if (plan::has_split_backward(plan.plan))
    out << "; split backward (zero bubble), weight gradients deferred";
  if (plan.plan.updates != program::UpdatePlace::kAtEnd)
    out << "; streamed layers are updated "
        << (plan.plan.updates == program::UpdatePlace::kInForward
                ? "right before their first forward of the next step"
                : "right after their last backward");
  if (plan.plan.optimizer_shards > 1)
    out << "; optimizer state sharded over " << plan.plan.optimizer_shards << " replicas (ZeRO-1)";
  out << "\n";
}

}  // namespace
}  // namespace trireme::app
