// SPDX-License-Identifier: Apache-2.0
#include "answers.h"
#include "judge/judge.h"
#include "memory/rank.h"
#include "memory/state_away.h"
#include "memory/update_window.h"

#include "trireme/core/error.h"
#include "trireme/solve/solve.h"

#include <algorithm>
#include <utility>

namespace trireme::partition {
namespace {

solve::Problem problem_of(const Question& question, const chain::Chain& timed,
                          const FixedBytes& fixed);
/// With as much memory as makes sense: what keep_all needs, more only for a solver that needs more.
/// With as much memory as makes sense: what keep_all needs, more only for a solver that needs more.
solve::Result unbounded(const Question& question, const std::string& solver,
                        solve::Problem problem);
plan::Infeasible with_static(plan::Infeasible infeasible, Bytes fixed, Bytes memory);

}  // namespace

Answer answer_alone(const Question& question, const std::string& solver) {
  const chain::RankSpec& rank = question.platform.ranks.front();
  const chain::Chain timed = at_speed(question.chain, rank.speed);
  const FixedBytes always = fixed_bytes(question, 0, {{1, timed.length()}});
  const Bytes fixed = always.held;
  const solve::Problem problem = problem_of(question, timed, always);
  solve::Result result =
      rank.memory > Bytes(0) ? solve::solve(solver, problem) : unbounded(question, solver, problem);
  if (auto* infeasible = std::get_if<plan::Infeasible>(&result))
    return with_static(std::move(*infeasible), fixed, rank.memory);
  auto& solution = std::get<solve::Solution>(result);
  const bool has_window = update_window(question, 0, {{1, timed.length()}}) > Bytes(0);
  const Bytes step =
      has_window ? Bytes(0) : chain::step_room(question.chain, always.optimizer_away);
  const Bytes needed = std::max(solution.peak, step);
  // Static bytes alone may exceed the memory where a chain holds nothing else, and passes may take
  // less than a step's parts of state that is away.
  if (rank.memory > Bytes(0) && needed + fixed > rank.memory) {
    return with_static({.first_layer = 1,
                        .last_layer = timed.length(),
                        .needed = needed,
                        .available = {},
                        .least_budget = needed,
                        .where = "parameters, gradients and optimizer alone"},
                       fixed, rank.memory);
  }
  plan::Plan plan = judged(question, solver, {std::move(solution.program)}).plan;
  require_valid(question, plan);
  return plan;
}

namespace {

solve::Problem problem_of(const Question& question, const chain::Chain& timed,
                          const FixedBytes& fixed) {
  const chain::RankSpec& rank = question.platform.ranks.front();
  solve::Problem problem;
  problem.chain = &timed;
  problem.first_layer = 1;
  problem.last_layer = timed.length();
  problem.budget = std::max(Bytes(0), rank.memory - fixed.held);
  if (rank.can_copy())
    problem.link = solve::HostLink{
        .out = rank.out, .in = rank.in, .capacity = outer_room(rank, fixed.outside)};
  problem.slots = question.slots;
  problem.breadth = question.breadth;
  return problem;
}

/// With as much memory as makes sense: what keep_all needs, more only for a solver that needs more.
solve::Result unbounded(const Question& question, const std::string& solver,
                        solve::Problem problem) {
  problem.budget =
      keep_all_budget(question) - static_bytes(question, {{1, question.chain.length()}});
  solve::Result result = solve::solve(solver, problem);
  if (const auto* infeasible = std::get_if<plan::Infeasible>(&result)) {
    problem.budget = infeasible->least_budget;
    result = solve::solve(solver, problem);
  }
  return result;
}

plan::Infeasible with_static(plan::Infeasible infeasible, Bytes fixed, Bytes memory) {
  infeasible.needed += fixed;
  infeasible.least_budget += fixed;
  infeasible.available = memory;
  return infeasible;
}

}  // namespace

}  // namespace trireme::partition
