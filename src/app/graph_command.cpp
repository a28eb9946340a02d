// SPDX-License-Identifier: Apache-2.0
#include "graph_command.h"

#include "exit_code.h"
#include "patience.h"
#include "trade_off_command.h"

#include "trireme/chain/platform.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/graph/plan.h"
#include "trireme/io/file.h"
#include "trireme/io/sizes.h"
#include "trireme/poet/solve.h"
#include "trireme/report/graph_report.h"
#include "trireme/report/text.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <optional>
#include <utility>
#include <variant>

namespace trireme::app {
namespace {

chain::RankSpec first_rank(const std::string& platform) {
  return chain::load_platform(platform).ranks.front();
}

graph::Problem problem_of(const std::string& graph, const std::string& platform,
                          const std::optional<Bytes>& memory) {
  if (platform.empty())
    throw InputError("--graph: needs a device: give --platform, such as raspberry-pi-4b.yaml");
  chain::RankSpec rank = first_rank(platform);
  rank.memory = memory.value_or(rank.memory);
  const graph::Lanes lanes = rank.copies_in_turn ? graph::Lanes::kInTurn : graph::Lanes::kBeside;
  return graph::problem_of(graph::load_graph(graph), rank, lanes);
}

/// Share of the time for the fastest step, where a deadline is a factor of it.
constexpr double kFastestShare = 0.5;

/// Says what takes so long.
std::string words_of(const PlanArguments& arguments, const std::string& solver,
                     const graph::Problem& problem) {
  return concat("planning ", visible(problem.graph.name), " by ", solver, ", for at most ",
                to_text(Seconds(arguments.time_limit)), " (--time-limit) ...");
}

/// The fastest schedule whatever the deadline, in `share` of the time.
poet::Result fastest(graph::Problem problem, poet::Freedom freedom, const std::string& solver,
                     double share) {
  problem.deadline = Seconds(std::numeric_limits<double>::infinity());
  freedom.objective = poet::Objective::kTime;
  freedom.limit = freedom.limit.part(share);
  return poet::solve(solver, problem, freedom);
}

/// The answer by a deadline, of which a factor is of the fastest step: its schedule is then what
/// the solver begins with. Sets the problem's deadline.
poet::Result answer(const PlanArguments& arguments, const std::string& solver,
                    graph::Problem& problem, poet::Freedom freedom) {
  const partition::Deadline deadline = goal_of(arguments).deadline;
  problem.deadline = deadline.time;
  if (std::isinf(deadline.factor)) return poet::solve(solver, problem, freedom);
  poet::Result first = fastest(problem, freedom, solver, kFastestShare);
  auto* const found = std::get_if<poet::Solution>(&first);
  if (found == nullptr) return first;
  problem.deadline = deadline.of(found->outcome.time);
  const bool is_done = freedom.objective == poet::Objective::kTime && deadline.factor >= 1;
  if (is_done) return first;
  freedom.start = std::move(found->schedule);
  return poet::solve(solver, problem, freedom);
}

/// graph::Plan::gap.
std::optional<double> gap_of(const poet::Solution& solution, poet::Objective objective) {
  if (solution.is_optimal) return 0;
  if (!(solution.bound > 0)) return std::nullopt;
  const double value = objective == poet::Objective::kEnergy ? solution.outcome.energy().count()
                                                             : solution.outcome.time.count();
  return std::clamp(1 - solution.bound / value, 0.0, 1.0);
}

int give(const PlanArguments& arguments, const graph::Problem& problem, poet::Objective objective,
         const poet::Solution& solution) {
  graph::Plan plan{.solver = solution.solver,
                   .memory = problem.memory,
                   .step = solution.outcome.time,
                   .energy = solution.outcome.energy(),
                   .peak = solution.outcome.peak,
                   .gap = gap_of(solution, objective),
                   .schedule = solution.schedule};
  const graph::Replayed replayed = graph::replay(problem, plan.schedule);
  const report::GraphRun run{problem, plan, replayed};
  const std::string text = arguments.compact
                               ? graph::to_compact(plan.schedule, problem.graph) + "\n"
                               : graph::to_json(plan, problem.graph);
  if (!arguments.output.empty()) io::write_file(arguments.output, text);
  if (!arguments.report.empty()) io::write_file(arguments.report, report::graph_page(run));
  if (arguments.json) {
    std::cout << graph::to_json(plan, problem.graph);
    return kDone;
  }
  std::cout << report::graph_text(run);
  for (const std::string& file : {arguments.output, arguments.report})
    if (!file.empty()) std::cout << "written: " << visible(file) << "\n";
  return kDone;
}

int give_up(const graph::Problem& problem, const poet::Infeasible& why, const std::string& solver,
            double limit) {
  const bool has_deadline = !std::isinf(problem.deadline.count());
  std::cerr << "trireme: no schedule of " << visible(problem.graph.name);
  if (problem.memory > Bytes(0)) std::cerr << " within " << to_text(problem.memory);
  if (has_deadline) std::cerr << " ends by " << report::time_text(problem.deadline);
  if (!why.is_proven) std::cerr << " was found";
  if (!why.where.empty()) std::cerr << ": " << why.where;
  std::vector<std::string> ways;
  if (why.least_time > problem.deadline)
    ways.push_back(concat("--deadline ", io::time_of_at_least(why.least_time), " or later"));
  const Bytes memory = has_deadline ? why.memory_in_time : why.least_memory;
  if (memory > problem.memory) ways.push_back(concat("--memory ", io::size_of_at_least(memory)));
  const bool is_exact = solver.starts_with("poet") && solver != "poet_chain";
  if (!why.is_proven)
    ways.push_back(is_exact ? "--time-limit more than " + to_text(Seconds(limit))
                            : std::string("--solver poet"));
  if (!ways.empty()) std::cerr << ". Give " << join(ways, ", or ");
  std::cerr << "\n";
  return kInfeasible;
}

/// Deadlines of a trade-off between the fastest schedule and that of least energy.
constexpr int kDeadlines = 10;

/// What a trade-off shows of a schedule that was searched for this objective.
plan::Plan shown(const poet::Solution& solution, poet::Objective objective) {
  const graph::Outcome& outcome = solution.outcome;
  plan::Plan plan;
  plan.solver = solution.solver;
  if (outcome.offloaded > Bytes(0)) plan.solver += ", copies " + to_text(outcome.offloaded);
  const std::optional<double> gap = gap_of(solution, objective);
  if (gap && *gap > 0) plan.solver += ", gap " + report::percent_text(*gap);
  plan.step = outcome.time;
  plan.energy = outcome.energy();
  plan.recompute = outcome.recompute;
  return plan;
}

/// Those of which none is both faster and takes less energy, from the fastest on.
std::vector<plan::Plan> front_of(std::vector<plan::Plan> plans) {
  std::sort(plans.begin(), plans.end(), [](const plan::Plan& a, const plan::Plan& b) {
    return std::pair(a.step, a.energy) < std::pair(b.step, b.energy);
  });
  std::vector<plan::Plan> front;
  for (plan::Plan& plan : plans)
    if (front.empty() || plan.energy < front.back().energy) front.push_back(std::move(plan));
  return front;
}

/// Least energy for deadlines from the fastest step to that of the least energy of all, each with
/// the same share of the time. Where nothing fits, sets the problem's deadline and says why.
std::variant<std::vector<plan::Plan>, poet::Infeasible> trade_off_graph(
    const PlanArguments& arguments, const std::string& solver, graph::Problem& problem,
    poet::Freedom freedom) {
  const poet::TimeLimit all = freedom.limit;
  const poet::Result quick = fastest(problem, freedom, solver, 1.0 / (kDeadlines + 2));
  const auto* const first = std::get_if<poet::Solution>(&quick);
  if (first == nullptr) return std::get<poet::Infeasible>(quick);
  problem.deadline = goal_of(arguments).deadline.of(first->outcome.time);
  freedom.objective = poet::Objective::kEnergy;
  freedom.start = first->schedule;
  freedom.limit = all.part(1.0 / (kDeadlines + 1));
  const poet::Result result = poet::solve(solver, problem, freedom);
  if (const auto* const why = std::get_if<poet::Infeasible>(&result)) return *why;
  const auto& leanest = std::get<poet::Solution>(result);
  if (leanest.outcome.energy() <= Joules(0))
    throw InputError(
        "--pareto: neither the graph nor the platform says what energy costs; see "
        "docs/graphs.md");
  std::vector<plan::Plan> plans{shown(leanest, poet::Objective::kEnergy),
                                shown(*first, poet::Objective::kTime)};
  for (int k = 0; k < kDeadlines; ++k) {
    const Seconds begin = first->outcome.time, end = leanest.outcome.time;
    problem.deadline = begin + (end - begin) * (static_cast<double>(k) / kDeadlines);
    freedom.limit = all.part(1.0 / (kDeadlines - k));
    const poet::Result one = poet::solve(solver, problem, freedom);
    const auto* const solution = std::get_if<poet::Solution>(&one);
    if (solution == nullptr) continue;
    plans.push_back(shown(*solution, poet::Objective::kEnergy));
    freedom.start = solution->schedule;
  }
  return front_of(std::move(plans));
}

int give_trade_off_of_graph(const PlanArguments& arguments, const std::string& solver,
                            graph::Problem problem, const poet::Freedom& freedom) {
  const auto found = [&] {
    const Patience patience(words_of(arguments, solver, problem));
    return trade_off_graph(arguments, solver, problem, freedom);
  }();
  if (const auto* const why = std::get_if<poet::Infeasible>(&found))
    return give_up(problem, *why, solver, arguments.time_limit);
  return give_trade_off(arguments, std::get<std::vector<plan::Plan>>(found), problem.graph.name);
}

}  // namespace

int plan_graph(const PlanArguments& arguments) {
  for (const std::string& file : {arguments.output, arguments.report}) io::require_writable(file);
  const std::string solver = arguments.solver == "auto" ? "poet" : arguments.solver;
  graph::Problem problem = problem_of(arguments.graph, arguments.platform, memory_of(arguments));
  poet::Freedom freedom;
  freedom.objective = goal_of(arguments).objective == partition::Objective::kEnergy
                          ? poet::Objective::kEnergy
                          : poet::Objective::kTime;
  freedom.limit = Seconds(arguments.time_limit);
  if (arguments.pareto)
    return give_trade_off_of_graph(arguments, solver, std::move(problem), freedom);
  const poet::Result result = [&] {
    const Patience patience(words_of(arguments, solver, problem));
    return answer(arguments, solver, problem, freedom);
  }();
  if (const auto* const why = std::get_if<poet::Infeasible>(&result))
    return give_up(problem, *why, solver, arguments.time_limit);
  return give(arguments, problem, freedom.objective, std::get<poet::Solution>(result));
}

int simulate_graph(const SimulateArguments& arguments) {
  io::require_writable(arguments.report);
  graph::Problem problem = problem_of(arguments.graph, arguments.files.platform, std::nullopt);
  const graph::Plan plan = graph::load_plan(arguments.files.plan, problem.graph);
  if (plan.memory > Bytes(0)) problem.memory = plan.memory;
  const graph::Replayed replayed = graph::replay(problem, plan.schedule);
  if (replayed.fault)
    throw InputError(concat(arguments.files.plan, ": action ", replayed.fault->index,
                            " cannot run: ", replayed.fault->reason));
  const report::GraphRun run{problem, plan, replayed};
  if (!arguments.report.empty()) io::write_file(arguments.report, report::graph_page(run));
  std::cout << (arguments.json ? report::graph_json(run) : report::graph_text(run));
  return kDone;
}

}  // namespace trireme::app
