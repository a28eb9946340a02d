// The table of solvers, and solve(), which picks one by name.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/poet/solve.h"

#include "scale.h"
#include "solvers.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace trireme::poet {
namespace {

using graph::Problem;

/// Memories that are tried for one with which a schedule is in time.
constexpr int kHalvings = 12;
/// Relative difference up to which two values are equal: joules are sums, and rounded.
constexpr double kTie = 1e-12;

struct Solver {
  std::string_view name;
  Result (*solve)(const Problem& problem, const Freedom& freedom);
};

Result solve_recompute(const Problem& problem, const Freedom& freedom);
Result solve_offload(const Problem& problem, const Freedom& freedom);

constexpr Solver kSolvers[] = {
    {"keep_all", solve_keep_all},        {"greedy", solve_greedy},
    {"capuchin", solve_capuchin},        {"pofo", solve_pofo},
    {"poet_chain", solve_poet_chain},    {"poet", solve_poet},
    {"poet_recompute", solve_recompute}, {"poet_offload", solve_offload}};

/// The least memory with which this solver answers, as far as the time allows it to look; not for a
/// deadline that none meets, and not where memory has no limit (0).
Bytes memory_that_does(const Solver& solver, const Problem& problem, const Freedom& freedom);
/// A solver that makes its schedules anew may come back with less than it was to improve on.
void improve_by_start(const Problem& problem, const Freedom& freedom, Result& result);
void verify(const Problem& problem, const Solution& solution);

}  // namespace

const std::vector<std::string>& solver_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const Solver& solver : kSolvers) names.emplace_back(solver.name);
    return names;
  }();
  return kNames;
}

Result solve(std::string_view solver, const Problem& problem, const Freedom& freedom) {
  const auto* const found = std::find_if(std::begin(kSolvers), std::end(kSolvers),
                                         [&](const Solver& row) { return row.name == solver; });
  if (found == std::end(kSolvers)) {
    throw InputError(concat("no solver of graphs is called '", solver, "'",
                            did_you_mean(solver, solver_names()), "; there are ",
                            join(solver_names(), ", ")));
  }
  const auto start = std::chrono::steady_clock::now();
  Result result = found->solve(problem, freedom);
  improve_by_start(problem, freedom, result);
  if (auto* const solution = std::get_if<Solution>(&result)) {
    solution->solver = solver;
    solution->took = to_seconds(std::chrono::steady_clock::now() - start);
    verify(problem, *solution);
  } else {
    auto& why = std::get<Infeasible>(result);
    Bytes& memory = has_deadline(problem) ? why.memory_in_time : why.least_memory;
    if (memory == Bytes(0)) memory = memory_that_does(*found, problem, freedom);
  }
  return result;
}

Result solve_keep_all(const Problem& problem, const Freedom& freedom) {
  const graph::Schedule schedule = keep_all(problem.graph);
  Problem unlimited = problem;
  unlimited.memory = Bytes(0);
  const graph::Outcome outcome = replay(unlimited, schedule).outcome;
  const bool fits = problem.memory == Bytes(0) || outcome.peak <= problem.memory;
  if (!fits || !is_in_time(problem, outcome)) {
    return Infeasible{.node = widest(problem.graph).node,
                      .least_memory = outcome.peak,
                      .least_time = fits ? outcome.time : Seconds(0),
                      .where = concat("keep_all holds ", to_text(outcome.peak), " and takes ",
                                      to_text(outcome.time))};
  }
  const double value = value_of(outcome, freedom.objective);
  return Solution{.schedule = schedule, .outcome = outcome, .is_optimal = true, .bound = value};
}

std::optional<Solution> without_search(const Problem& problem, const Freedom& freedom) {
  Result result = solve_keep_all(problem, freedom);
  auto* const solution = std::get_if<Solution>(&result);
  return solution != nullptr ? std::optional(std::move(*solution)) : std::nullopt;
}

double value_of(const graph::Outcome& outcome, Objective objective) {
  return objective == Objective::kEnergy ? outcome.energy().count() : outcome.time.count();
}

bool is_better(Merit one, Merit other) {
  if (std::abs(one.value - other.value) > kTie * other.value) return one.value < other.value;
  return one.next < other.next;
}

bool is_in_time(const Problem& problem, const graph::Outcome& outcome) {
  return outcome.time <= problem.deadline * (1 + kSlack);
}

bool is_too_early(const Problem& problem) {
  return least_value(problem, Objective::kTime) > problem.deadline.count() * (1 + kSlack);
}

Seconds least_time(Result (*solve)(const Problem&, const Freedom&), const Problem& problem,
                   const Freedom& freedom) {
  if (!has_deadline(problem)) return Seconds(0);
  Problem patient = problem;
  patient.deadline = Problem{}.deadline;
  Freedom fastest = freedom;
  fastest.objective = Objective::kTime;
  const Result result = solve(patient, fastest);
  const auto* const solution = std::get_if<Solution>(&result);
  return solution != nullptr ? solution->outcome.time : Seconds(0);
}

std::string words_of_deadline(const Problem& problem, Seconds least) {
  const std::string late = concat("the deadline of ", to_text(problem.deadline), " is ",
                                  to_text(least - problem.deadline), " too early");
  if (!is_too_early(problem)) return late;
  return concat(late, ", and before the ", to_text(Seconds(least_value(problem, Objective::kTime))),
                " that computing every node once takes with any memory");
}

double least_value(const Problem& problem, Objective objective) {
  double least = 0;
  for (const graph::NodeCost& cost : problem.costs) {
    least += objective == Objective::kEnergy ? cost.energy.count() : cost.time.count();
  }
  return least;
}

Widest widest(const graph::Graph& graph) {
  Widest widest;
  for (int node = 0; node < graph.size(); ++node) {
    Bytes bytes = graph.node(node).bytes + graph.node(node).transient;
    for (const int input : graph.node(node).inputs) bytes += graph.node(input).bytes;
    if (bytes > widest.bytes) widest = {node, bytes};
  }
  return widest;
}

namespace {

Result solve_recompute(const Problem& problem, const Freedom& freedom) {
  Freedom alone = freedom;
  alone.may_copy = false;
  return solve_poet(problem, alone);
}

Result solve_offload(const Problem& problem, const Freedom& freedom) {
  Freedom alone = freedom;
  alone.may_recompute = false;
  return solve_poet(problem, alone);
}

// Between a memory that does not do, and that of keep_all, which does where anything does. A solver
// by rules of thumb may miss less.
Bytes memory_that_does(const Solver& solver, const Problem& problem, const Freedom& freedom) {
  if (problem.memory == Bytes(0) || is_too_early(problem)) return Bytes(0);
  Problem wider = problem;
  wider.memory = Bytes(0);
  Bytes short_of = problem.memory, enough = replay(wider, keep_all(problem.graph)).outcome.peak;
  for (int k = 0; k < kHalvings && !freedom.limit.is_over(); ++k) {
    wider.memory = short_of + (enough - short_of) / 2;
    if (wider.memory == short_of) break;
    const Result result = solver.solve(wider, freedom);
    const auto* const solution = std::get_if<Solution>(&result);
    if (solution == nullptr) {
      short_of = wider.memory;
    } else {
      enough = solution->outcome.peak;
    }
  }
  return enough;
}

void improve_by_start(const Problem& problem, const Freedom& freedom, Result& result) {
  if (!freedom.start) return;
  const graph::Replayed replayed = replay(problem, *freedom.start);
  if (replayed.fault || !is_in_time(problem, replayed.outcome)) return;
  const auto merit = [&](const graph::Outcome& outcome) {
    const bool is_time = freedom.objective == Objective::kTime;
    return Merit{value_of(outcome, freedom.objective),
                 is_time ? outcome.energy().count() : outcome.time.count()};
  };
  if (auto* const found = std::get_if<Solution>(&result)) {
    if (!is_better(merit(replayed.outcome), merit(found->outcome))) return;
    found->schedule = *freedom.start;  // what is proven holds for all schedules
    found->outcome = replayed.outcome;
  } else {
    result = Solution{.schedule = *freedom.start,
                      .outcome = replayed.outcome,
                      .bound = least_value(problem, freedom.objective)};
  }
}

void verify(const Problem& problem, const Solution& solution) {
  const graph::Replayed replayed = replay(problem, solution.schedule);
  ensure(!replayed.fault, concat(solution.solver, " makes a schedule that cannot run: ",
                                 replayed.fault ? replayed.fault->reason : ""));
  ensure(is_in_time(problem, replayed.outcome),
         concat(solution.solver, " makes a schedule that ends after its deadline"));
}

}  // namespace
}  // namespace trireme::poet
