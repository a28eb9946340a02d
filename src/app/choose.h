// Asking several solvers the same question and taking the best answer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "one_rank.h"

#include "trireme/core/units.h"

#include <string>
#include <vector>

namespace trireme::app {

/// A solver's answer and how long it took; `refused` says why there is none.
struct Tried {
  std::string solver;
  std::variant<std::monostate, plan::Plan, plan::Infeasible> answer;
  std::string refused;
  Seconds solving;

  const plan::Plan* plan() const { return std::get_if<plan::Plan>(&answer); }
  const plan::Infeasible* infeasible() const { return std::get_if<plan::Infeasible>(&answer); }
};

/// Solvers to ask when nobody is named: all that take seconds, and those that move values only
/// where the rank can. Says on standard error which ones a long chain makes it leave out.
std::vector<std::string> quick_solvers(const OneRank& question);
/// Solvers whose times are worth knowing beside the named one's: those that take no time.
std::vector<std::string> instant_solvers(const OneRank& question);

/// In the order of `solvers`.
std::vector<Tried> try_all(const OneRank& question, const std::vector<std::string>& solvers);

/// The fastest plan, of equals the first that moves least; nullptr if there is none.
const Tried* fastest(const std::vector<Tried>& tried);
/// The least budget among those that do not fit; nullptr if there are none.
const Tried* leanest(const std::vector<Tried>& tried);

/// What the others would cost, for the plan's file.
std::vector<plan::Alternative> alternatives(const std::vector<Tried>& tried, const Tried& chosen);

/// One row per solver.
std::string comparison(const std::vector<Tried>& tried, const OneRank& question);

}  // namespace trireme::app
