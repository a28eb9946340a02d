// The solvers that search for copies: `offload` (Beaumont et al. 2020, EuroPar: every layer taped
// once) and `pofo` (Beaumont et al. 2021, NeurIPS: with recomputation). Both problems are NP-hard
// with whole tensors; plans are judged by replay.
//
// SPDX-License-Identifier: Apache-2.0
#include "baselines/baselines.h"
#include "copies.h"
#include "copy_plan.h"
#include "judge/judge.h"
#include "tables/rotor.h"

#include "trireme/core/error.h"
#include "trireme/solve/fluid.h"

#include <limits>
#include <utility>

namespace trireme::solve {
namespace {

// `alone`: what is possible without copies; `freedom`: none where nothing is recomputed.
Result with_copies(const Problem& problem, Result alone, std::optional<Freedom> freedom);
void offer_searched(const Problem& problem, std::optional<Freedom> freedom, BestProgram& best);

}  // namespace

Result solve_offload(const Problem& problem, std::string_view argument) {
  if (!argument.empty()) refuse_argument("offload", argument);
  return with_copies(problem, solve_keep_all(problem, ""), std::nullopt);
}

Result solve_pofo(const Problem& problem, std::string_view argument) {
  if (argument == "free") {
    return with_copies(problem, solve_rotor_free(problem, ""), Freedom::kInputMayLeave);
  }
  if (!argument.empty()) refuse_argument("pofo", argument, "free");
  return with_copies(problem, solve_rotor(problem, ""), Freedom::kInputStays);
}

std::optional<FluidPlan> plan_fluid(const Problem& asked, FluidChoices choices) {
  ensure(asked.chain != nullptr && can_copy(asked.link), "copies need a chain and a link");
  Problem problem = asked;
  if (problem.last_layer == 0) problem.last_layer = problem.chain->length();
  std::optional<RedoTable> redo;
  if (choices == FluidChoices::kOffloadAndRecompute) {
    redo.emplace(make_redo_table(problem, Freedom::kInputStays));
  }
  RedoTable* table = redo ? &*redo : nullptr;
  CopySearch<FluidLane> search({problem, table, std::numeric_limits<std::size_t>::max() / 8});
  search.run();
  const auto ends = search.ends();
  if (ends.empty()) return std::nullopt;
  CopyProgram made = copy_program(problem, parts_of(search.steps(ends.front()), table));
  return FluidPlan{Seconds(ends.front().time), std::move(made.program)};
}

namespace {

Result with_copies(const Problem& problem, Result alone, std::optional<Freedom> freedom) {
  if (!can_copy(problem.link)) return alone;
  BestProgram best(problem);
  if (const auto* solution = std::get_if<Solution>(&alone)) best.offer(*solution);
  const std::vector<CopyPart> leanest = leanest_parts(problem, freedom);
  const CopyProgram least = copy_program(problem, leanest);
  if (best.best() || least.needed <= problem.budget) {
    best.offer(leanest);
    offer_searched(problem, freedom, best);
  }
  if (best.best()) return *best.best();
  const auto& without = std::get<plan::Infeasible>(alone);
  // Where the offload tier is too small for the leanest program: the result without it.
  if (least.moved > problem.link->capacity) return without;
  plan::Infeasible with = infeasible_with_copies(problem, leanest);
  return with.least_budget < without.least_budget ? with : without;
}

void offer_searched(const Problem& problem, std::optional<Freedom> freedom, BestProgram& best) {
  if (!freedom) {
    search_copies({problem, nullptr, most_labels(problem)}, best);
  } else {
    // The greedy plan is quick to make and a good bound, now and then the best on a long chain.
    const Result greedy = solve_capuchin(problem, "");
    if (const auto* solution = std::get_if<Solution>(&greedy)) best.offer(*solution);
    RedoTable redo = make_redo_table(problem, *freedom);
    search_copies({problem, &redo, most_labels(problem)}, best);
  }
  best.drop_needless_copies();
}

}  // namespace
}  // namespace trireme::solve
