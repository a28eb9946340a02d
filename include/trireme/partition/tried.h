// Asking several solvers the same question and taking the best answer.
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

/// What `solve` answers; refused where it throws InputError.
Tried try_to(const std::string& solver, const std::function<Answer()>& solve);
/// One solver's own answer to the question, whatever question.solver says; no alternatives.
Tried try_solver(const Question& question, const std::string& solver);
/// For one stage. The same with the optimizer's state and streamed weights where they are best, as
/// plan() has it. Throws InputError where the question contradicts itself.
Tried try_alone(const Question& question, const std::string& solver);

/// For one stage. Solvers to ask when nobody is named: all that take seconds, and those that move
/// values only where the rank can.
std::vector<std::string> quick_solvers(const Question& question);
/// Those that would be among them if the chain were not so long.
std::vector<std::string> slow_solvers(const Question& question);
/// Solvers whose times are worth knowing beside the named one's: those that take no time.
std::vector<std::string> instant_solvers(const Question& question);

/// The fastest plan, of equals the first that moves least; nullptr if there is none.
const Tried* fastest(const std::vector<Tried>& tried);
/// The least budget among those that do not fit; nullptr if there are none.
const Tried* leanest(const std::vector<Tried>& tried);

/// What an answer that was not taken would cost, or why it is none.
plan::Alternative as_alternative(const std::string& policy, const Answer& answer);
/// What the others would cost, for the plan's file.
std::vector<plan::Alternative> alternatives(const std::vector<Tried>& tried, const Tried& chosen);

}  // namespace trireme::partition
