// The solver "poet": a program for the question, a second one for why there is no answer.
// SPDX-License-Identifier: Apache-2.0
#include "model.h"
#include "scale.h"
#include "solvers.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trireme::poet {
namespace {

using graph::Problem;
using graph::Schedule;

/// Share of the time for the program in which what stays in memory is no integer column. Where that
/// does not do, integer columns make a better bound.
constexpr double kFirstShare = 0.03;
/// Share of the time for schedules to begin with, which mostly take milliseconds.
constexpr double kQuickShare = 0.2;
/// Share of the time for the question where it begins with no schedule: the rest is for why there
/// may be none.
constexpr double kShareWithoutStart = 0.5;

/// An answer to a question; without a schedule none was found.
struct Answer {
  std::optional<Schedule> schedule;
  bool is_optimal = false, is_infeasible = false;  ///< proven
  double bound = 0;                                ///< joules, seconds or bytes
};

Answer ask(const Problem& problem, const Freedom& freedom, Aim aim);
void attempt(const Problem& problem, const Model& model, const MilpLimits& limits, Answer& answer);
std::optional<Schedule> start_for(const Problem& problem, const Freedom& freedom, Aim aim);
void check(const Problem& problem, const Schedule& schedule, const Model& model,
           const MilpResult& result);
bool is_better(const Problem& problem, const Schedule& schedule, const Schedule& than, Aim aim);
double value_of(const graph::Outcome& outcome, Aim aim);
Solution solution_of(const Problem& problem, const Freedom& freedom, const Answer& answer);
Infeasible why_not(const Problem& problem, const Freedom& freedom, bool is_proven);
double excess_of(const Problem& problem, const std::optional<Schedule>& schedule, Aim aim);
Seconds horizon_of(const Problem& problem, const std::optional<Schedule>& start, Aim aim);
Bytes least_memory(const Problem& problem, const Freedom& freedom, TimeLimit limit);
Bytes memory_by_program(Problem problem, const Freedom& freedom, TimeLimit limit);
std::string words_of(const Problem& problem, const Infeasible& why);

}  // namespace

Result solve_poet(const Problem& problem, const Freedom& freedom) {
  if (!has_highs()) {
    throw InputError(
        "poet: this build has no HiGHS, which solves its programs; run ./launch/install, which "
        "fetches it, and build again, or use the solver greedy");
  }
  if (auto solution = without_search(problem, freedom)) return *std::move(solution);
  const bool is_too_wide =
      problem.memory > Bytes(0) && widest(problem.graph).bytes > problem.memory;
  if (is_too_wide || is_too_early(problem)) return why_not(problem, freedom, true);
  const Aim aim = freedom.objective == Objective::kEnergy ? Aim::kEnergy : Aim::kTime;
  const Answer answer = ask(problem, freedom, aim);
  if (!answer.schedule) return why_not(problem, freedom, answer.is_infeasible);
  return solution_of(problem, freedom, answer);
}

namespace {

Answer ask(const Problem& problem, const Freedom& freedom, Aim aim) {
  Answer answer{.schedule = start_for(problem, freedom, aim)};
  const Question question{.aim = aim,
                          .may_recompute = freedom.may_recompute,
                          .may_copy = freedom.may_copy,
                          .horizon = horizon_of(problem, answer.schedule, aim),
                          .excess = excess_of(problem, answer.schedule, aim)};
  Model model = model_of(problem, question);
  const TimeLimit limit = answer.schedule ? freedom.limit : freedom.limit.part(kShareWithoutStart);
  attempt(problem, model, {limit.part(kFirstShare), freedom.gap}, answer);
  if (!answer.is_optimal && !answer.is_infeasible) {
    make_whole(model);
    attempt(problem, model, {limit, freedom.gap}, answer);
  }
  return answer;
}

// The best of the schedule that is given, if it fits, and of what takes no longer than a second.
std::optional<Schedule> start_for(const Problem& problem, const Freedom& freedom, Aim aim) {
  std::optional<Schedule> start;
  const auto offer = [&](const std::optional<Schedule>& schedule) {
    if (!schedule) return;
    const graph::Replayed replayed = replay(problem, *schedule);
    if (replayed.fault || !is_in_time(problem, replayed.outcome)) return;
    if (!start || is_better(problem, *schedule, *start, aim)) start = schedule;
  };
  offer(freedom.start);
  if (aim == Aim::kMemory) return start;
  Freedom quick = freedom;
  quick.limit = freedom.limit.part(kQuickShare);
  const std::optional<Schedule> chain = chain_schedule(problem, quick);
  offer(chain ? chain : greedy_schedule(problem, quick, kGreedySearches));
  const Result capuchin = solve_capuchin(problem, quick);
  if (const auto* const other = std::get_if<Solution>(&capuchin)) offer(other->schedule);
  return start;
}

// From the schedule so far to a better one.
void attempt(const Problem& problem, const Model& model, const MilpLimits& limits, Answer& answer) {
  const Terms start = answer.schedule ? start_of(problem, model, *answer.schedule) : Terms{};
  const MilpResult result = solve_milp(model.milp, start, limits);
  answer.is_optimal = result.is_optimal;
  answer.is_infeasible = result.is_infeasible && !answer.schedule;
  answer.bound = std::max(answer.bound, result.bound * model.unit);
  if (result.columns.empty()) return;
  const Schedule schedule = schedule_of(problem, model, result.columns);
  check(problem, schedule, model, result);
  if (!answer.schedule || is_better(problem, schedule, *answer.schedule, model.aim)) {
    answer.schedule = schedule;
  }
}

bool is_better(const Problem& problem, const Schedule& schedule, const Schedule& than, Aim aim) {
  const auto merit = [&](const Schedule& one) {
    const graph::Outcome outcome = replay(problem, one).outcome;
    return Merit{value_of(outcome, aim),
                 aim == Aim::kTime ? outcome.energy().count() : outcome.time.count()};
  };
  return is_better(merit(schedule), merit(than));
}

// What the program says of its schedule is what replay says.
void check(const Problem& problem, const Schedule& schedule, const Model& model,
           const MilpResult& result) {
  const graph::Replayed replayed = replay(problem, schedule);
  ensure(!replayed.fault,
         concat("poet: its schedule cannot run: ", replayed.fault ? replayed.fault->reason : ""));
  const double value = value_of(replayed.outcome, model.aim);
  const double promised = result.objective * model.unit;
  ensure(value <= promised * (1 + kRounding), concat("poet: its schedule costs ", to_text(value),
                                                     ", its program says ", to_text(promised)));
}

double value_of(const graph::Outcome& outcome, Aim aim) {
  switch (aim) {
    case Aim::kEnergy:
      return outcome.energy().count();
    case Aim::kTime:
      return outcome.time.count();
    case Aim::kMemory:
      return static_cast<double>(outcome.peak.count());
  }
  return 0;
}

// With clocks the program's own bound may be weaker than the least that any schedule takes.
Solution solution_of(const Problem& problem, const Freedom& freedom, const Answer& answer) {
  const graph::Outcome outcome = replay(problem, *answer.schedule).outcome;
  const double bound = std::max(answer.bound, least_value(problem, freedom.objective));
  return Solution{.schedule = *answer.schedule,
                  .outcome = outcome,
                  .is_optimal = answer.is_optimal,
                  .bound = std::min(value_of(outcome, freedom.objective), bound)};
}

// By how much a schedule costs more than every node once: what a better one may cost in addition.
double excess_of(const Problem& problem, const std::optional<Schedule>& schedule, Aim aim) {
  if (!schedule || aim == Aim::kMemory) return kUnbounded;
  const Objective objective = aim == Aim::kEnergy ? Objective::kEnergy : Objective::kTime;
  const double value = value_of(replay(problem, *schedule).outcome, aim);
  return value - least_value(problem, objective) + kRounding * value;
}

// Twice the time of the start, if less is asked for. Else that of a schedule that does everything
// that a program can say, one after the other.
Seconds horizon_of(const Problem& problem, const std::optional<Schedule>& start, Aim aim) {
  if (start && aim == Aim::kTime) return 2 * replay(problem, *start).outcome.time;
  Seconds all{0};
  for (int node = 0; node < problem.graph.size(); ++node) {
    const graph::NodeCost& cost = problem.cost(node);
    const double times = problem.graph.size() - node;
    all += cost.out + times * (cost.time + cost.in);
  }
  return all;
}

Infeasible why_not(const Problem& problem, const Freedom& freedom, bool is_proven) {
  Infeasible why{.is_proven = is_proven, .node = widest(problem.graph).node};
  why.least_memory = least_memory(problem, freedom, freedom.limit.part(1.0 / 3));
  if (problem.memory == Bytes(0) || why.least_memory <= problem.memory) {
    Freedom fastest = freedom;
    fastest.limit = freedom.limit.part(1.0 / 2);
    why.least_time = least_time(solve_poet, problem, fastest);
  }
  if (has_deadline(problem) && !is_too_early(problem))
    why.memory_in_time = memory_by_program(problem, freedom, freedom.limit);
  why.where = words_of(problem, why);
  return why;
}

// With room for all of them outside, every value can be outside whenever it is not used.
Bytes least_memory(const Problem& problem, const Freedom& freedom, TimeLimit limit) {
  Bytes all{0};
  for (const graph::Node& node : problem.graph.nodes) all += node.bytes;
  if (freedom.may_copy && all <= problem.capacity) return widest(problem.graph).bytes;
  Problem patient = problem;
  patient.deadline = Problem{}.deadline;
  return memory_by_program(std::move(patient), freedom, limit);
}

// The least that a schedule needs which ends by the deadline.
Bytes memory_by_program(Problem problem, const Freedom& freedom, TimeLimit limit) {
  problem.memory = Bytes(0);
  Freedom exact = freedom;
  exact.start = graph::keep_all(problem.graph);
  exact.gap = 0;
  exact.limit = limit;
  const Answer answer = ask(problem, exact, Aim::kMemory);
  return answer.schedule ? replay(problem, *answer.schedule).outcome.peak : Bytes(0);
}

std::string words_of(const Problem& problem, const Infeasible& why) {
  const std::string& node = problem.graph.node(why.node).name;
  const Bytes needed = widest(problem.graph).bytes;
  if (why.least_time > problem.deadline) return words_of_deadline(problem, why.least_time);
  if (problem.memory == Bytes(0) || why.least_memory <= problem.memory) {
    return "none was found within the time limit of the solver";
  }
  return concat("memory for ", to_text(why.least_memory), " is needed, of which ", to_text(needed),
                " for ", node, " and its inputs; there is ", to_text(problem.memory));
}

}  // namespace
}  // namespace trireme::poet
