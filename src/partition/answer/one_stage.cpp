// SPDX-License-Identifier: Apache-2.0
#include "answers.h"
#include "judge/judge.h"
#include "memory/offload.h"
#include "memory/rank.h"

#include "trireme/solve/solve.h"

#include <algorithm>
#include <utility>

namespace trireme::partition {
namespace {

/// Solves within the memory that static bytes leave. Without a budget, within what keep_all needs,
/// or more only for a solver that needs more.
solve::Result solved(const Question& question, const std::string& solver, const chain::Chain& timed,
                     const FixedBytes& fixed) {
  const chain::RankSpec& rank = question.platform.ranks.front();
  const bool is_bounded = rank.memory > Bytes(0);
  solve::Problem problem;
  problem.chain = &timed;
  problem.first_layer = 1;
  problem.last_layer = timed.length();
  problem.budget = is_bounded
                       ? std::max(Bytes(0), rank.memory - fixed.held)
                       : keep_all_budget(question) - static_bytes(question, {{1, timed.length()}});
  if (rank.can_copy())
    problem.link = solve::HostLink{
        .out = rank.out, .in = rank.in, .capacity = offload_room(rank, fixed.outside)};
  problem.slots = question.slots;
  problem.breadth = question.breadth;
  solve::Result result = solve::solve(solver, problem);
  const auto* const infeasible = std::get_if<plan::Infeasible>(&result);
  if (is_bounded || infeasible == nullptr) return result;
  problem.budget = infeasible->least_budget;
  return solve::solve(solver, problem);
}

plan::Infeasible with_static(plan::Infeasible infeasible, Bytes fixed, Bytes memory) {
  infeasible.needed += fixed;
  infeasible.least_budget += fixed;
  infeasible.available = memory;
  return infeasible;
}

}  // namespace

Answer answer_alone(const Question& given, const std::string& solver) {
  const Question question = with_more_as_budget(given);
  const Bytes memory = question.platform.ranks.front().memory;
  const chain::Chain timed = at_speed(question.chain, question.platform.ranks.front().speed);
  const LayerRuns all{{1, timed.length()}};
  const FixedBytes fixed = fixed_bytes(question, 0, all);
  solve::Result result = solved(question, solver, timed, fixed);
  if (auto* infeasible = std::get_if<plan::Infeasible>(&result))
    return with_static(std::move(*infeasible), fixed.held, memory);
  auto& solution = std::get<solve::Solution>(result);
  const bool has_window = update_window(question, 0, all) > Bytes(0);
  const Bytes step =
      has_window ? Bytes(0) : chain::step_room(question.chain, fixed.offloaded_optimizer);
  const Bytes needed = std::max(solution.peak, step);
  // Static bytes alone may exceed the memory where a chain holds nothing else, and passes may need
  // less than an optimizer step's parts of offloaded state.
  if (memory > Bytes(0) && needed + fixed.held > memory) {
    return with_static({.first_layer = 1,
                        .last_layer = timed.length(),
                        .needed = needed,
                        .available = {},
                        .least_budget = needed,
                        .where = "parameters, gradients and optimizer alone"},
                       fixed.held, memory);
  }
  plan::Plan plan = judged(question, solver, {std::move(solution.program)}).plan;
  require_valid(question, plan);
  return plan;
}

}  // namespace trireme::partition
