// Replay as the judge of programs: what they cost, and what a budget lacks.
//
// SPDX-License-Identifier: Apache-2.0
#include "judge.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/program/retape.h"
#include "trireme/simulate/replay.h"

#include <string>
#include <utility>

namespace trireme::solve {
namespace {

/// Replay of a program; with a budget, actions and copies wait for memory.
simulate::Replay replayed(const Problem& problem, const program::StageProgram& program,
                          std::optional<Bytes> budget = std::nullopt);
Solution solution(program::StageProgram program, const simulate::Replay& replay);
/// "layer 7 (head): backward".
std::string place_of(const chain::Chain& chain, const program::Action& peak_at);

}  // namespace

Solution judged(const Problem& problem, program::StageProgram program) {
  program = program::with_retapes(std::move(program), *problem.chain);
  const simulate::Replay replay = replayed(problem, program);
  return solution(std::move(program), replay);
}

std::optional<Solution> judged_with_copies(const Problem& problem, program::StageProgram program) {
  const simulate::Replay replay = replayed(problem, program, problem.budget);
  if (replay.peak > problem.budget) return std::nullopt;
  if (problem.link && replay.moved > problem.link->capacity) return std::nullopt;
  return solution(std::move(program), replay);
}

Result within_budget(const Problem& problem, program::StageProgram leanest) {
  Solution solution = judged(problem, std::move(leanest));
  if (solution.peak <= problem.budget) return solution;
  return infeasible(problem, solution.program);
}

plan::Infeasible infeasible(const Problem& problem, const program::StageProgram& leanest) {
  const simulate::Replay replay = replayed(problem, program::with_retapes(leanest, *problem.chain));
  return {.rank = 0,
          .first_layer = problem.first_layer,
          .last_layer = problem.last_layer,
          .needed = replay.peak,
          .available = problem.budget,
          .least_budget = replay.peak,
          .where = place_of(*problem.chain, replay.peak_at)};
}

void refuse_argument(std::string_view solver, std::string_view argument, std::string_view known) {
  throw InputError(concat("solver '", solver, "': cannot read '", argument, "'; ",
                          known.empty() ? concat("write '", solver, "' alone")
                                        : concat("expected '", solver, " ", known, "'")));
}

namespace {

simulate::Replay replayed(const Problem& problem, const program::StageProgram& program,
                          std::optional<Bytes> budget) {
  simulate::CopyLanes lanes;
  if (problem.link) lanes = {.out = problem.link->out, .in = problem.link->in};
  lanes.budget = budget;
  simulate::Replay replay = simulate::replay(*problem.chain, program, lanes);
  if (replay.fault) {
    throw LogicError(concat("a solver made a program that cannot run: ", to_text(*replay.fault)));
  }
  return replay;
}

Solution solution(program::StageProgram program, const simulate::Replay& replay) {
  return {.program = std::move(program),
          .time = replay.time,
          .peak = replay.peak,
          .kept = replay.kept,
          .recompute = replay.recompute,
          .moved = replay.moved};
}

std::string place_of(const chain::Chain& chain, const program::Action& peak_at) {
  const std::string_view op = program::name(peak_at.op);
  if (peak_at.layer < 1) return concat(op, " ", peak_at.layer);
  const std::string& name = chain.layer(peak_at.layer).name;
  return concat("layer ", peak_at.layer, name.empty() ? "" : concat(" (", name, ")"), ": ", op);
}

}  // namespace
}  // namespace trireme::solve
