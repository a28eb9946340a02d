// Room for what stays on the device of tapes that are offloaded.
// SPDX-License-Identifier: Apache-2.0
#include "copies.h"
#include "judge/judge.h"

#include "trireme/core/error.h"

#include <optional>
#include <utility>
#include <variant>

namespace trireme::solve {
namespace {

using Solve = Result (*)(const Problem& problem, std::string_view argument);

/// With room for all of `stays`, on a chain in which whole tapes move.
Result with_room(const Problem& problem, std::string_view argument, Solve solve, Bytes stays) {
  chain::Chain moves_all = *problem.chain;
  for (chain::LayerCost& layer : moves_all.layers) layer.tape_stays = {};
  Problem smaller = problem;
  smaller.chain = &moves_all;
  smaller.budget = problem.budget - stays;
  Result found = solve(smaller, argument);
  if (auto* const none = std::get_if<plan::Infeasible>(&found)) {
    none->needed += stays;
    none->least_budget += stays;
    none->available = problem.budget;
    return found;
  }
  std::optional<Solution> solution =
      judged_with_copies(problem, std::move(std::get<Solution>(found).program));
  ensure(solution.has_value(), "what stays of tapes has room");
  return *std::move(solution);
}

/// Whether `a` is the better answer.
bool is_better(const Result& a, const Result& b) {
  const auto* const of_a = std::get_if<Solution>(&a);
  const auto* const of_b = std::get_if<Solution>(&b);
  if (of_a != nullptr && of_b != nullptr) return of_a->time < of_b->time;
  if (of_a != nullptr || of_b != nullptr) return of_a != nullptr;
  return std::get<plan::Infeasible>(a).least_budget < std::get<plan::Infeasible>(b).least_budget;
}

}  // namespace

Result with_what_stays(const Problem& problem, std::string_view argument, Solve solve) {
  Bytes stays;
  for (int i = problem.first_layer; i <= problem.last_layer; ++i)
    stays += problem.chain->layer(i).tape_stays;
  if (stays == Bytes(0) || !can_copy(problem.link)) return solve(problem, argument);
  Problem alone = problem;  // where nothing moves, all of the budget is there
  alone.link.reset();
  Result without = solve(alone, argument);
  Result with = with_room(problem, argument, solve, stays);
  return is_better(with, without) ? with : without;
}

}  // namespace trireme::solve
