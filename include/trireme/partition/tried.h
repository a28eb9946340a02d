// Runs several solvers on one question and picks the best answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace trireme::partition {

/// A solver's answer; `refused` says why there is none.
struct Tried {
  std::string solver;
  std::variant<std::monostate, plan::Plan, plan::Infeasible> answer;
  std::string refused;

  const plan::Plan* plan() const { return std::get_if<plan::Plan>(&answer); }
  const plan::Infeasible* infeasible() const { return std::get_if<plan::Infeasible>(&answer); }
};

/// The answer of `solve`; `refused` is set where it throws InputError.
Tried try_to(const std::string& solver, const std::function<Answer()>& solve);
/// The answer of this solver, whatever question.solver says; no alternatives.
Tried try_solver(const Question& question, const std::string& solver);
/// try_solver() for one stage, with the best placement of optimizer state and streamed weights, as
/// plan() finds it. Throws InputError where the question contradicts itself.
Tried try_alone(const Question& question, const std::string& solver);

/// Single-stage solvers that `auto` runs: all that take seconds, with solvers that offload only
/// where the rank can.
std::vector<std::string> quick_solvers(const Question& question);
/// Solvers left out of quick_solvers() because the chain is too long.
std::vector<std::string> slow_solvers(const Question& question);
/// Solvers cheap enough to run for comparison next to a named one.
std::vector<std::string> instant_solvers(const Question& question);

/// The fastest plan, ties going to the first that moves the fewest bytes; nullptr if there is none.
const Tried* fastest(const std::vector<Tried>& tried);
/// The infeasible answer with the least budget; nullptr if there is none.
const Tried* leanest(const std::vector<Tried>& tried);

/// An answer that was not taken, as the plan file lists it: its step, or why it is infeasible.
plan::Alternative as_alternative(const std::string& policy, const Answer& answer);
/// All answers but the chosen one, for the plan file.
std::vector<plan::Alternative> alternatives(const std::vector<Tried>& tried, const Tried& chosen);

}  // namespace trireme::partition
