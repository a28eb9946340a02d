// SPDX-License-Identifier: Apache-2.0
#include "trireme/prepare/prepared.h"

#include "graph_plan.h"
#include "policy_plan.h"
#include "question.h"
#include "tapes.h"

#include "trireme/comm/heartbeat.h"
#include "trireme/config/job_notes.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/partition/planner.h"
#include "trireme/prepare/job_platform.h"
#include "trireme/prepare/measured_chain.h"
#include "trireme/profile/tied_weights.h"
#include "trireme/ranks/rank_kinds.h"
#include "trireme/ranks/signals.h"
#include "trireme/schedule/named.h"

#include <malloc.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace trireme::prepare {
namespace {

using Result = std::variant<Prepared, Misfit>;

/// One rank's way from a job to what it runs.
class Preparing {
 public:
  Preparing(const config::JobSpec& job, const model::ChainModel& model,
            const ranks::RankContext& context, Preparation known, std::ostream& out)
      : job_(job),
        model_(model),
        context_(context),
        known_(std::move(known)),
        out_(out),
        goal_(goal_of(job)) {}

  Result prepared();

 private:
  bool speaks() const { return context_.channel.rank() == 0; }
  /// Every rank.
  bool needs_costs() const;
  /// Keep_all or recompute_all, without costs.
  Prepared by_policy() const;
  /// By a plan that is given or made from measured costs.
  Result from_costs();
  MeasuredChain measured(bool lean_tapes) const;
  /// The better of full and lean tapes. Lean ones are measured where full ones cannot all be kept.
  Result with_best_tapes();
  /// With the plan of `plan.file`.
  Result given(plan::Plan plan);
  /// Plans a chain that was measured with such tapes.
  Result planned(const MeasuredChain& measured, bool lean_tapes);

  Forecast costs_of(const MeasuredChain& measured) const;
  partition::Question question_of(const Forecast& costs, int optimizer_shards) const;
  /// Rank 0's plan, or why it has none, on every rank.
  partition::Answer solved(const partition::Question& question) const;
  /// Whether the plan of the chosen shape answers this question: it was made for the same chain and
  /// the same ranks, for the fastest step. Links were measured again, between the pipeline's own
  /// neighbours.
  bool is_planned(const partition::Question& question) const;
  /// Compiles and simulates the plan of a question.
  Result carried_out(const partition::Question& question, plan::Plan plan, Forecast costs) const;
  std::optional<Misfit> over_a_budget(const Prepared& prepared) const;
  void say(const Prepared& prepared) const;

  const config::JobSpec& job_;
  const model::ChainModel& model_;
  const ranks::RankContext& context_;
  Preparation known_;
  std::ostream& out_;
  const partition::Goal goal_;
};

/// Optimizer state that is updated when a step ends passes in parts that together take no more than
/// the passes of the step do.
chain::StateParts parts_between_steps(Bytes peak, Bytes idle);
/// A rank's offload tier, cut into what the forecast says, to the byte. Values that move during
/// passes have host memory first.
OffloadStores stores_of(const config::JobSpec& job, const chain::RankSpec& rank,
                        const simulate::OffloadRoom& room);

}  // namespace

Result prepare(const config::JobSpec& job, const model::ChainModel& model,
               const ranks::RankContext& context, Preparation known, std::ostream& out) {
  if (model.is_graph()) return prepare_graph(job, model, context, out);
  return Preparing(job, model, context, std::move(known), out).prepared();
}

namespace {

Result Preparing::prepared() {
  if (speaks())
    for (const std::string& note : config::job_notes(job_)) out_ << "note: " << note << "\n";
  if (known_.costs == Preparation::Costs::kWhereNeeded && !needs_costs()) return by_policy();
  require_solver(job_);
  Result result = from_costs();
  if (const auto* const made = std::get_if<Prepared>(&result); made != nullptr && speaks()) {
    say(*made);
    if (context_.shares_cores)
      out_ << "note: ranks share cores here; expected times are for a core per thread\n";
  }
  return result;
}

Result Preparing::from_costs() {
  if (!job_.plan.file.empty()) return given(plan_from_file(job_, model_, context_.stages));
  std::optional<bool> lean = known_.lean_tapes;
  if (!lean && job_.memory.tapes != "auto") lean = job_.memory.tapes == "lean";
  return lean ? planned(measured(*lean), *lean) : with_best_tapes();
}

bool Preparing::needs_costs() const {
  const bool by_policy = job_.plan.solver == "auto" || job_.plan.solver == "keep_all" ||
                         job_.plan.solver == "recompute_all";
  const tier::OffloadStoreOptions offload = offload_store_of(job_);
  const bool has_budget =
      !job_.memory.device_budget.empty() ||
      (job_.plan.solver == "auto" && context_.device.default_budget() > Bytes(0));
  if (goal_ != partition::Goal{}) return true;
  const std::string& schedule = job_.pipeline.schedule;
  if (schedule != "auto" && !schedule::has_usual_order(schedule)) return true;
  if (!by_policy || !job_.plan.file.empty() || has_budget || offload.host + offload.disk > Bytes(0))
    return true;
  // Stages of ranks that are not alike have work of unlike length.
  return context_.stages > 1 && !job_.pipeline.cut && ranks::rank_kinds(job_, context_).count() > 1;
}

Prepared Preparing::by_policy() const {
  Prepared result;
  result.plan = make_policy_plan(job_, model_, context_.stages);
  result.plan.lean_tapes = job_.memory.tapes == "lean";
  result.program = plan::compile(result.plan);
  return result;
}

MeasuredChain Preparing::measured(bool lean_tapes) const {
  return measured_chain(job_, model_, lean_tapes, context_, out_);
}

Result Preparing::with_best_tapes() {
  const MeasuredChain full_chain = measured(false);
  Result full = planned(full_chain, false);
  if (keeps_everything(full)) return full;
  if (needs_joules(job_)) {
    if (speaks())
      out_ << "note: lean tapes are not tried, because energy.busy_w does not say what their "
              "energy costs; memory.tapes: lean plans for their own profile\n";
    return full;
  }
  if (speaks()) out_ << "with lean tapes: ";
  const MeasuredChain lean_chain = measured(true);
  if (!has_smaller_tapes(lean_chain.chain, full_chain.chain)) return full;
  Result lean = planned(lean_chain, true);
  return better_of(std::move(full), std::move(lean), goal_);
}

Result Preparing::given(plan::Plan plan) {
  if (job_.memory.tapes != "auto") plan.lean_tapes = job_.memory.tapes == "lean";
  Forecast costs = costs_of(measured(plan.lean_tapes));
  const std::string digest = chain::digest(costs.chain);
  if (speaks() && plan.chain_digest != digest)
    out_ << "note: " << visible(job_.plan.file)
         << " was planned with other costs than this job's; what is predicted is for these\n";
  plan.chain_digest = digest;
  const partition::Question question = question_of(costs, plan.optimizer_shards);
  require_state(plan, question.chain, job_);
  if (job_.energy.set_clocks) require_clocks(plan, costs.platform, job_);
  if (plan::names_clocks(plan) && !job_.energy.set_clocks) {
    if (speaks())
      out_ << "note: " << visible(job_.plan.file)
           << " names clocks; they are not set, and what is predicted is for the usual ones\n";
    plan = plan::at_usual_clocks(std::move(plan));
  }
  return carried_out(question, std::move(plan), std::move(costs));
}

Result Preparing::planned(const MeasuredChain& measured, bool lean_tapes) {
  Forecast costs = costs_of(measured);
  const partition::Question question = question_of(costs, optimizer_shards(job_));
  partition::Answer answer = solved(question);
  if (auto* const why = std::get_if<plan::Infeasible>(&answer))
    return Misfit{.infeasible = std::move(*why),
                  .is_exact = partition::has_exact_least_budget(question)};
  auto& plan = std::get<plan::Plan>(answer);
  plan.lean_tapes = lean_tapes;
  return carried_out(question, std::move(plan), std::move(costs));
}

Forecast Preparing::costs_of(const MeasuredChain& measured) const {
  const int replicas = job_.pipeline.replicas.value();
  Forecast costs{.chain = measured.chain,
                 .platform = job_platform(job_, context_, context_.stages, replicas),
                 .simulation = {},
                 .peaks = {},
                 .has_earlier_costs = measured.is_earlier};
  set_speeds(costs.platform, measured.speeds, replicas);
  return costs;
}

partition::Question Preparing::question_of(const Forecast& costs, int optimizer_shards) const {
  partition::Question question;
  question.chain = costs.chain;
  question.platform = costs.platform;
  question.stages = context_.stages;
  question.micro_batches = config::micro_batches(job_);
  question.replicas = job_.pipeline.replicas.value();
  take_options(job_, question);
  question.cut = cut_by_user(job_, model_, context_.stages);
  question.shared_bytes = [tied = profile::TiedWeights(model_, job_.train)](
                              const partition::LayerRuns& runs) { return tied.shared(runs); };
  question.streamed = partition::streamed_layers_of(job_.memory.weights, costs.chain);
  question.weights_at_once = std::nullopt;
  if (optimizer_shards > 1) partition::shard_optimizer(question);
  return question;
}

partition::Answer Preparing::solved(const partition::Question& question) const {
  std::string text;
  const auto work = [&] {
    if (!speaks()) return;
    if (is_planned(question)) {
      text = plan::to_json(*known_.plan);
      return;
    }
    const ranks::StopsAtOnce nothing_to_save("a plan is made");
    out_ << "planning ..." << std::endl;
    const partition::Answer answer = goal_ == partition::Goal{}
                                         ? partition::plan(question)
                                         : partition::plan_for(question, goal_).answer;
    text = std::visit([](const auto& one) { return plan::to_json(one); }, answer);
    ::malloc_trim(0);  // the planner's tables, up to gigabytes, that malloc would keep
  };
  comm::run_with_heartbeat(context_.channel, work, "planning");
  text =
      comm::broadcast(context_.channel, comm::everyone(context_.channel), text, "plan of rank 0");
  const io::Node document = io::parse(text, "plan");
  if (const auto why = document.find("infeasible")) return plan::read_infeasible(*why);
  return plan::read_plan(document);
}

bool Preparing::is_planned(const partition::Question& question) const {
  if (!known_.plan || goal_ != partition::Goal{}) return false;
  const plan::Plan& plan = *known_.plan;
  if (plan::ranks_of(plan) != question.stages) return false;
  const bool has_same_budgets =
      std::all_of(plan.stages.begin(), plan.stages.end(), [&](const plan::StagePlan& stage) {
        return stage.budget == question.platform.ranks[static_cast<std::size_t>(stage.rank)].memory;
      });
  return has_same_budgets && plan.micro_batches == question.micro_batches &&
         plan.replicas == question.replicas && plan.chain_digest == chain::digest(question.chain);
}

Result Preparing::carried_out(const partition::Question& question, plan::Plan plan,
                              Forecast costs) const {
  Prepared result;
  const bool sets_clocks = job_.energy.set_clocks && plan::names_clocks(plan);
  result.plan =
      sets_clocks ? partition::with_clock_per_rank(question, std::move(plan)) : std::move(plan);
  result.plan.replicas = question.replicas;
  const program::Program program = plan::compile(result.plan, question.chain);
  const simulate::Setting setting = partition::setting_of(
      question,
      known_.plans_alone || sets_clocks ? result.plan : plan::at_usual_clocks(result.plan));
  costs.simulation = simulate::simulate(program, setting, simulate::Detail::kTimeline);
  if (const auto& fault = costs.simulation.fault) ensure(false, simulate::to_text(*fault));
  const auto mine = static_cast<std::size_t>(context_.channel.rank() % context_.stages);
  simulate::PlacedCopies placed = simulate::place_copies(program, setting, costs.simulation);
  for (const simulate::PlacedBytes& rank : placed.ranks) costs.peaks.push_back(rank.peak);
  result.program = std::move(placed.program);
  result.forecast = std::move(costs);
  if (auto misfit = over_a_budget(result)) {
    misfit->is_exact = !job_.plan.file.empty() && partition::has_exact_least_budget(question);
    return *std::move(misfit);
  }
  const Forecast& forecast = *result.forecast;
  result.stores =
      stores_of(job_, forecast.platform.ranks[mine], forecast.simulation.ranks[mine].offloaded);
  const Bytes window = plan::update_windows(result.plan)[mine];
  result.optimizer_parts = window > Bytes(0)
                               ? chain::state_parts(forecast.chain, window)
                               : parts_between_steps(forecast.peaks[mine], placed.ranks[mine].idle);
  return result;
}

std::optional<Misfit> Preparing::over_a_budget(const Prepared& prepared) const {
  const Forecast& forecast = *prepared.forecast;
  const auto misfit = [](const plan::StagePlan& stage, Misfit::Tier tier, Bytes needed,
                         Bytes available) {
    return Misfit{.infeasible = {.rank = stage.rank,
                                 .first_layer = stage.program.first_layer,
                                 .last_layer = stage.program.last_layer,
                                 .needed = needed,
                                 .available = available,
                                 .least_budget = needed},
                  .tier = tier};
  };
  const auto spec = [&](const plan::StagePlan& stage) -> const chain::RankSpec& {
    return forecast.platform.ranks[static_cast<std::size_t>(stage.rank)];
  };
  const auto peak = [&](const plan::StagePlan& stage) {
    return forecast.peaks[static_cast<std::size_t>(stage.rank)];
  };
  const auto share = [&](const plan::StagePlan& stage) {
    const Bytes memory = spec(stage).memory;
    return memory > Bytes(0) ? peak(stage) / memory : 0;
  };
  const std::vector<plan::StagePlan>& stages = prepared.plan.stages;
  // A budget that is enough for the scarcest rank is enough for all of them.
  const plan::StagePlan& scarcest =
      *std::max_element(stages.begin(), stages.end(),
                        [&](const auto& a, const auto& b) { return share(a) < share(b); });
  if (share(scarcest) > 1)
    return misfit(scarcest, Misfit::Tier::kDevice, peak(scarcest), spec(scarcest).memory);
  for (const plan::StagePlan& stage : stages) {
    const Bytes offloaded =
        forecast.simulation.ranks[static_cast<std::size_t>(stage.rank)].offloaded.all();
    const Bytes capacity = spec(stage).offload_capacity();
    if (offloaded > capacity) return misfit(stage, Misfit::Tier::kOffload, offloaded, capacity);
  }
  return std::nullopt;
}

void Preparing::say(const Prepared& prepared) const {
  const Forecast& forecast = *prepared.forecast;
  out_ << "plan: " << prepared.plan.solver
       << (prepared.plan.lean_tapes ? " with lean tapes, " : ", ")
       << to_text(forecast.simulation.step) << " a step expected";
  if (forecast.simulation.recompute > Seconds(0))
    out_ << ", " << to_text(forecast.simulation.recompute) << " of it recomputation";
  if (const Joules energy = forecast.simulation.energy.all(); energy > Joules(0))
    out_ << ", " << to_text(energy * prepared.plan.replicas) << " of energy";
  const std::vector<Bytes> offloaded_state = plan::offloaded_optimizer(prepared.plan);
  const std::vector<std::vector<int>> streamed = plan::streamed_layers(prepared.plan);
  for (std::size_t rank = 0; rank < forecast.peaks.size(); ++rank) {
    const Bytes budget = forecast.platform.ranks[rank].memory;
    out_ << "; rank " << rank << ": peak " << to_text(forecast.peaks[rank]);
    if (budget > Bytes(0)) out_ << " of " << to_text(budget);
    if (offloaded_state[rank] > Bytes(0))
      out_ << ", " << to_text(offloaded_state[rank]) << " of optimizer state in the offload tier";
    if (!streamed[rank].empty())
      out_ << ", weights of " << streamed[rank].size() << " layers in the offload tier";
  }
  if (plan::has_split_backward(prepared.plan))
    out_ << "; split backward (zero bubble), weight gradients deferred";
  if (prepared.plan.updates != program::UpdatePlace::kAtEnd)
    out_ << "; streamed layers are updated "
         << (prepared.plan.updates == program::UpdatePlace::kInForward
                 ? "right before their first forward of the next step"
                 : "right after their last backward");
  if (prepared.plan.optimizer_shards > 1)
    out_ << "; optimizer state sharded over " << prepared.plan.optimizer_shards
         << " replicas (ZeRO-1)";
  out_ << "\n";
  if (plan::names_clocks(prepared.plan) && !known_.plans_alone && !job_.energy.set_clocks)
    out_ << "note: the plan names clocks, with which a step would take "
         << to_text(prepared.plan.step) << " and "
         << to_text(prepared.plan.energy * prepared.plan.replicas)
         << "; they are not set, and what is predicted is for the usual ones\n";
}

chain::StateParts parts_between_steps(Bytes peak, Bytes idle) {
  chain::StateParts parts;
  const Bytes passes = peak - idle;
  parts.size = std::min(chain::kLargestStatePart, (passes - chain::kUpdateScratch) / parts.at_once);
  return parts;
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

}  // namespace
}  // namespace trireme::prepare
