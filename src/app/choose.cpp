// SPDX-License-Identifier: Apache-2.0
#include "choose.h"

#include "trireme/core/text.h"
#include "trireme/report/text.h"

#include <chrono>
#include <iostream>

namespace trireme::app {
namespace {

Seconds now() {
  return to_seconds(std::chrono::steady_clock::now().time_since_epoch());
}

std::vector<std::string> row_of(const partition::Tried& tried, Seconds solving, Seconds ideal);

}  // namespace

Comparison compare(const partition::Question& question, const std::vector<std::string>& solvers) {
  Comparison comparison;
  for (const std::string& solver : solvers) {
    const Seconds begin = now();
    comparison.tried.push_back(partition::try_alone(question, solver));
    comparison.solving.push_back(now() - begin);
  }
  return comparison;
}

std::string to_text(const Comparison& comparison, const partition::Question& question) {
  const Seconds ideal = partition::ideal_step(question);
  std::vector<std::vector<std::string>> rows{
      {"solver", "step", "overhead", "peak", "recompute", "moved", "solved in", "least budget"}};
  for (std::size_t i = 0; i < comparison.tried.size(); ++i)
    rows.push_back(row_of(comparison.tried[i], comparison.solving[i], ideal));
  std::string text = table(rows);
  for (const partition::Tried& one : comparison.tried) {
    if (!one.refused.empty()) text += concat(one.solver, ": ", one.refused, "\n");
  }
  return text + "\n";
}

void tell_left_out(const partition::Question& question) {
  const std::vector<std::string> slow = partition::slow_solvers(question);
  if (slow.empty()) return;
  std::cerr << "skipped, since they take minutes for " << question.chain.length()
            << " layers: " << join(slow, ", ") << "; --solver NAME runs one of them\n";
}

namespace {

std::vector<std::string> row_of(const partition::Tried& tried, Seconds solving, Seconds ideal) {
  const std::string taken = trireme::to_text(solving);
  if (const plan::Plan* plan = tried.plan()) {
    const plan::StagePrediction& predicted = plan->stages.front().predicted;
    return {tried.solver,
            report::time_text(plan->step),
            report::overhead_text(plan->step, ideal),
            report::exact_text(predicted.peak),
            report::time_text(plan->recompute),
            trireme::to_text(predicted.offloaded * plan->micro_batches),
            taken,
            ""};
  }
  if (const plan::Infeasible* infeasible = tried.infeasible())
    return {tried.solver, "-", "", "", "", "", taken, report::exact_text(infeasible->least_budget)};
  return {tried.solver, "refused", "", "", "", "", "", ""};
}

}  // namespace
}  // namespace trireme::app
