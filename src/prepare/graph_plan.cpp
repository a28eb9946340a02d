// SPDX-License-Identifier: Apache-2.0
#include "graph_plan.h"

#include "policy_plan.h"
#include "question.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/graph/lower.h"
#include "trireme/graph/problem.h"
#include "trireme/graph/timeline.h"
#include "trireme/partition/goal.h"
#include "trireme/poet/solve.h"
#include "trireme/prepare/job_platform.h"
#include "trireme/prepare/measured_chain.h"
#include "trireme/profile/measure_graph.h"
#include "trireme/ranks/signals.h"
#include "trireme/report/text.h"

#include <malloc.h>

#include <algorithm>
#include <string>
#include <utility>

namespace trireme::prepare {
namespace {

/// How long solvers may look for the best schedule, the fastest one that a deadline is a factor of
/// included, and how much better another one may be when they end before.
constexpr Seconds kPlanning{30};
constexpr double kGap = 5e-3;
/// Share of the time for the fastest schedule where a deadline is compared with it.
constexpr double kFastestShare = 0.5;

/// The problem of one micro-batch, and what the rank holds besides.
struct Task {
  profile::GraphCosts costs;
  chain::Platform platform;
  graph::Problem problem;

  const chain::RankSpec& rank() const { return platform.ranks.front(); }
  Bytes fixed() const { return costs.fixed + costs.kept; }
};

/// Plans one micro-batch for what the job asks for.
class GraphPlanner {
 public:
  GraphPlanner(const config::JobSpec& job, const Task& task, std::ostream& out);
  std::variant<graph::Plan, Misfit> run();

 private:
  /// By keep_all where that fits, which takes the least time and energy.
  poet::Result solved() const;
  std::variant<graph::Plan, Misfit> plan_of(const poet::Result& result) const;
  Misfit too_late(Seconds fastest, Seconds deadline) const;
  /// A budget with which the fastest schedule of all is in time; 0: there is none.
  Bytes in_time_budget(Seconds deadline) const;
  Seconds step_of(Seconds micro_batch) const { return micro_batches_ * micro_batch + update_; }

  std::string solver_;
  partition::Goal goal_;
  const Task& task_;
  std::ostream& out_;
  double micro_batches_;
  Seconds update_;
  graph::Problem problem_;
  poet::Freedom freedom_;
};

Task measured_task(const config::JobSpec& job, const model::ChainModel& model,
                   const ranks::RankContext& context, std::ostream& out);
graph::Plan given(const config::JobSpec& job, const Task& task);
Prepared carried_out(const config::JobSpec& job, const model::ChainModel& model, Task task,
                     graph::Plan plan);
/// A plan of one stage for what reads plans: it has the program's actions of one micro-batch.
plan::Plan plan_of(const config::JobSpec& job, const model::ChainModel& model,
                   const program::Program& program, const std::string& solver);
/// "plan: poet, 1.2 s a step expected, ...".
void say(const Prepared& prepared, std::ostream& out);

}  // namespace

std::variant<Prepared, Misfit> prepare_graph(const config::JobSpec& job,
                                             const model::ChainModel& model,
                                             const ranks::RankContext& context, std::ostream& out) {
  if (context.channel.size() != 1)
    throw InputError(concat("a model that is a graph runs on one rank, but there are ",
                            context.channel.size(), ": start it without mpirun"));
  if (needs_joules(job))
    job.fail("plan.objective",
             "is energy, but nothing says what energy costs: give the watts of the rank while it "
             "computes (energy.busy_w) and waits (energy.idle_w)");
  Task task = measured_task(job, model, context, out);
  std::variant<graph::Plan, Misfit> plan =
      job.plan.file.empty() ? GraphPlanner(job, task, out).run()
                            : std::variant<graph::Plan, Misfit>(given(job, task));
  if (auto* const misfit = std::get_if<Misfit>(&plan)) return std::move(*misfit);
  Prepared prepared =
      carried_out(job, model, std::move(task), std::get<graph::Plan>(std::move(plan)));
  say(prepared, out);
  return prepared;
}

namespace {

Task measured_task(const config::JobSpec& job, const model::ChainModel& model,
                   const ranks::RankContext& context, std::ostream& out) {
  out << "measuring " << model.length() << " operators ..." << std::endl;
  Task task{.costs = profile::measure_graph(model, job, measure_options(context, out)),
            .platform = job_platform(job, context, /*stages=*/1, /*replicas=*/1),
            .problem = {}};
  task.problem = graph::problem_of(task.costs.graph, task.rank(), graph::Lanes::kBeside);
  return task;
}

/// Values need at least `least` bytes.
Misfit misfit_of(const Task& task, Bytes least, bool is_exact) {
  const Bytes needed = task.fixed() + least;
  return {.infeasible = {.rank = 0,
                         .first_layer = 1,
                         .last_layer = task.costs.graph.size() - 1,
                         .needed = needed,
                         .available = task.rank().memory,
                         .least_budget = needed},
          .is_exact = is_exact};
}

std::string solver_of(const config::JobSpec& job) {
  const std::vector<std::string>& known = poet::solver_names();
  if (job.plan.solver == "auto") return poet::has_highs() ? "poet" : "greedy";
  if (std::find(known.begin(), known.end(), job.plan.solver) == known.end())
    job.fail("plan.solver",
             concat("is ", job.plan.solver, did_you_mean(job.plan.solver, known),
                    ", must for a model that is a graph be auto or one of ", join(known, ", ")));
  return job.plan.solver;
}

GraphPlanner::GraphPlanner(const config::JobSpec& job, const Task& task, std::ostream& out)
    : solver_(solver_of(job)),
      goal_(goal_of(job)),
      task_(task),
      out_(out),
      micro_batches_(config::micro_batches(job)),
      update_(task.costs.update),
      problem_(task.problem),
      freedom_{.objective = poet::Objective::kTime, .limit = kPlanning, .gap = kGap} {
  if (problem_.memory > Bytes(0))
    problem_.memory = std::max(Bytes(1), problem_.memory - task.fixed());
}

// A deadline is compared with the fastest step, which a factor is of.
std::variant<graph::Plan, Misfit> GraphPlanner::run() {
  const bool is_for_energy = goal_.objective == partition::Objective::kEnergy;
  if (is_for_energy && goal_.deadline.is_any()) freedom_.objective = poet::Objective::kEnergy;
  const poet::TimeLimit all = freedom_.limit;
  if (is_for_energy && !goal_.deadline.is_any()) freedom_.limit = all.part(kFastestShare);
  const poet::Result result = solved();
  const auto* const fastest = std::get_if<poet::Solution>(&result);
  if (goal_.deadline.is_any() || fastest == nullptr) return plan_of(result);
  const Seconds step = step_of(fastest->outcome.time), deadline = goal_.deadline.of(step);
  if (step > deadline) return too_late(step, deadline);
  if (!is_for_energy) return plan_of(result);
  problem_.deadline = (deadline - update_) / micro_batches_;
  freedom_.objective = poet::Objective::kEnergy;
  freedom_.start = fastest->schedule;
  freedom_.limit = all;
  return plan_of(solved());
}

poet::Result GraphPlanner::solved() const {
  poet::Result result = poet::solve("keep_all", problem_, freedom_);
  if (std::holds_alternative<poet::Solution>(result) || solver_ == "keep_all") return result;
  const ranks::StopsAtOnce nothing_to_save("a plan is made");
  out_ << "planning ..." << std::endl;
  result = poet::solve(solver_, problem_, freedom_);
  ::malloc_trim(0);  // what the solver took, up to gigabytes, that malloc would keep
  return result;
}

std::variant<graph::Plan, Misfit> GraphPlanner::plan_of(const poet::Result& result) const {
  if (const auto* const why = std::get_if<poet::Infeasible>(&result)) {
    const Bytes least = std::max(why->least_memory, problem_.memory + Bytes(1));
    return misfit_of(task_, least, why->is_proven && why->least_memory > Bytes(0));
  }
  const auto& found = std::get<poet::Solution>(result);
  const double value = freedom_.objective == poet::Objective::kEnergy
                           ? found.outcome.energy().count()
                           : found.outcome.time.count();
  return graph::Plan{.solver = found.solver,
                     .memory = problem_.memory,
                     .step = found.outcome.time,
                     .energy = found.outcome.energy(),
                     .peak = found.outcome.peak,
                     .gap = std::max(0.0, 1 - found.bound / value),
                     .schedule = found.schedule};
}

Misfit GraphPlanner::too_late(Seconds fastest, Seconds deadline) const {
  Misfit misfit = misfit_of(task_, Bytes(0), false);
  misfit.infeasible.reason = plan::Infeasible::Reason::kDeadline;
  misfit.infeasible.least_step = fastest;
  misfit.infeasible.least_budget = in_time_budget(deadline);
  return misfit;
}

Bytes GraphPlanner::in_time_budget(Seconds deadline) const {
  graph::Problem unlimited = problem_;
  unlimited.memory = Bytes(0);
  const graph::Outcome all = replay(unlimited, keep_all(unlimited.graph)).outcome;
  return step_of(all.time) <= deadline ? task_.fixed() + all.peak : Bytes(0);
}

graph::Plan given(const config::JobSpec& job, const Task& task) {
  graph::Plan plan = graph::load_plan(job.plan.file, task.costs.graph, graph::Costs::kAny);
  graph::Problem problem = task.problem;
  if (problem.memory > task.fixed()) problem.memory -= task.fixed();
  const graph::Replayed replayed = replay(problem, plan.schedule);
  if (replayed.fault)
    throw InputError(concat(job.plan.file, ": action ", replayed.fault->index,
                            " of the schedule cannot run here: ", replayed.fault->reason));
  plan.memory = problem.memory;
  plan.step = replayed.outcome.time;
  plan.energy = replayed.outcome.energy();
  plan.peak = replayed.outcome.peak;
  return plan;
}

Prepared carried_out(const config::JobSpec& job, const model::ChainModel& model, Task task,
                     graph::Plan plan) {
  const int micro_batches = config::micro_batches(job);
  graph::Problem& problem = task.problem;
  problem.memory = Bytes(0);
  const graph::Replayed replayed = replay(problem, plan.schedule);
  Prepared prepared;
  prepared.program = graph::lower(plan.schedule, problem.graph, micro_batches);
  prepared.plan = plan_of(job, model, prepared.program, plan.solver);
  prepared.plan.stages.front().budget = task.rank().memory;
  Forecast forecast{
      .chain = graph::as_chain(problem),
      .platform = task.platform,
      .simulation = graph::timeline(
          problem, plan.schedule, replayed,
          {.micro_batches = micro_batches, .fixed = task.fixed(), .update = task.costs.update}),
      .peaks = {}};
  prepared.plan.step = forecast.simulation.step;
  prepared.plan.recompute = forecast.simulation.recompute;
  forecast.peaks.push_back(forecast.simulation.ranks.front().peak.size);
  prepared.stores.values = part_of(offload_store_of(job), replayed.outcome.offloaded);
  prepared.forecast = std::move(forecast);
  prepared.graph = GraphPlan{.graph = std::move(task.costs.graph), .plan = std::move(plan)};
  return prepared;
}

plan::Plan plan_of(const config::JobSpec& job, const model::ChainModel& model,
                   const program::Program& program, const std::string& solver) {
  config::JobSpec by_policy = job;
  by_policy.plan.solver = "auto";
  plan::Plan plan = make_policy_plan(by_policy, model, /*stages=*/1);
  plan.solver = solver;
  plan.optimizer_shards = 1;
  program::StageProgram& stage = plan.stages.front().program;
  stage = {.first_layer = 1, .last_layer = program.layers, .forward = {}, .backward = {}};
  bool is_backward = false;
  for (const program::Action& action : program.ranks.front()) {
    if (action.micro_batch > 0 || program::ends_step(action.op)) break;
    (is_backward ? stage.backward : stage.forward).push_back(action);
    is_backward = is_backward || action.op == program::Op::kReadLoss;
  }
  return plan;
}

void say(const Prepared& prepared, std::ostream& out) {
  const Forecast& forecast = *prepared.forecast;
  const simulate::RankResult& rank = forecast.simulation.ranks.front();
  out << "plan: " << prepared.plan.solver << ", " << to_text(forecast.simulation.step)
      << " a step expected";
  if (rank.recompute > Seconds(0)) out << ", " << to_text(rank.recompute) << " of it recomputation";
  out << "; peak " << to_text(rank.peak.size);
  const Bytes budget = forecast.platform.ranks.front().memory;
  if (budget > Bytes(0)) out << " of " << to_text(budget);
  if (rank.offloaded.values > Bytes(0))
    out << ", " << to_text(rank.offloaded.values) << " of values in the offload tier";
  const std::optional<double>& gap = prepared.graph->plan.gap;
  if (gap && *gap > 1e-6)
    out << "; another schedule would be better by " << report::percent_text(*gap) << " at most";
  out << "\n";
}

}  // namespace
}  // namespace trireme::prepare
