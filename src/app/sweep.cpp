// SPDX-License-Identifier: Apache-2.0
#include "sweep.h"

#include "choose.h"
#include "exit_code.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/io/file.h"
#include "trireme/report/sweep.h"
#include "trireme/report/text.h"
#include "trireme/solve/solve.h"

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <vector>

namespace trireme::app {
namespace {

using partition::Tried;

/// The solvers' least budgets, from answers for almost no memory. Throws InputError if the named
/// solver refuses; others that refuse are left out.
std::vector<Tried> first_answers(const PlanArguments& arguments, partition::Question question);
/// `count` budgets, evenly spaced, both ends among them; fewer where bytes are too few.
std::vector<Bytes> budgets_between(Bytes least, Bytes most, int count);
report::SweepPoint point_of(const Tried& tried, Bytes budget);
int give(const PlanArguments& arguments, const report::Sweep& sweep);

}  // namespace

int sweep(const PlanArguments& arguments, const partition::Question& question) {
  const std::vector<Tried> first = first_answers(arguments, question);
  std::vector<std::string> solvers;
  for (const Tried& tried : first) solvers.push_back(tried.solver);
  const Bytes most = partition::keep_all_budget(question);
  const Tried* const thriftiest = partition::leanest(first);
  const Bytes least =
      thriftiest == nullptr ? most : std::min(thriftiest->infeasible()->least_budget, most);
  report::Sweep sweep{.chain_name = question.chain.name,
                      .micro_batches = question.micro_batches,
                      .ideal = partition::ideal_step(question),
                      .solvers = solvers,
                      .points = {}};
  partition::Question asked = question;
  for (const Bytes budget : budgets_between(least, most, arguments.sweep)) {
    asked.platform.ranks.front().memory = budget;
    for (const Tried& tried : compare(asked, solvers).tried)
      sweep.points.push_back(point_of(tried, budget));
  }
  return give(arguments, sweep);
}

namespace {

std::vector<Tried> first_answers(const PlanArguments& arguments, partition::Question question) {
  const bool named = arguments.solver != "auto" && arguments.solver != "all";
  if (partition::is_joint(arguments.solver))
    throw InputError(concat("--sweep: is for one stage, but --solver ", arguments.solver,
                            " plans several: name one of ", join(solve::solver_names(), ", ")));
  const std::vector<std::string> solvers =
      named ? std::vector<std::string>{arguments.solver} : partition::quick_solvers(question);
  if (!named) tell_left_out(question);
  question.platform.ranks.front().memory = Bytes(1);
  std::vector<Tried> tried = compare(question, solvers).tried;
  std::string reason;
  for (const Tried& one : tried) reason = one.refused.empty() ? reason : one.refused;
  std::erase_if(tried, [](const Tried& one) { return !one.refused.empty(); });
  if (tried.empty()) throw InputError(reason);
  return tried;
}

std::vector<Bytes> budgets_between(Bytes least, Bytes most, int count) {
  std::vector<Bytes> budgets;
  const std::int64_t steps = count - 1;
  const std::int64_t whole = (most - least).count() / steps, rest = (most - least).count() % steps;
  // Whole and rest separately: the span times the count may not fit into 64 bits.
  for (std::int64_t k = 0; k <= steps; ++k)
    budgets.push_back(least + Bytes(whole * k + rest * k / steps));
  budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
  return budgets;
}

report::SweepPoint point_of(const Tried& tried, Bytes budget) {
  report::SweepPoint point{
      .budget = budget, .solver = tried.solver, .cost = {}, .least_budget = {}};
  if (const plan::Plan* plan = tried.plan()) {
    const plan::StagePrediction& predicted = plan->stages.front().predicted;
    point.cost = report::SweepCost{.step = plan->step,
                                   .recompute = plan->recompute,
                                   .peak = predicted.peak,
                                   .kept = predicted.kept,
                                   .moved = predicted.offloaded};
  }
  if (const plan::Infeasible* infeasible = tried.infeasible())
    point.least_budget = infeasible->least_budget;
  return point;
}

int give(const PlanArguments& arguments, const report::Sweep& sweep) {
  if (!arguments.csv.empty()) io::write_file(arguments.csv, report::to_csv(sweep));
  if (!arguments.plot.empty()) io::write_file(arguments.plot, report::sweep_page(sweep));
  if (arguments.json) {
    std::cout << report::to_json(sweep);
    return kDone;
  }
  if (arguments.csv.empty() && arguments.plot.empty()) {
    std::cout << report::to_csv(sweep);
    return kDone;
  }
  std::cout << count_of(std::ssize(sweep.points), "plan") << " by "
            << count_of(std::ssize(sweep.solvers), "solver") << " from "
            << report::exact_text(sweep.points.front().budget) << " to "
            << report::exact_text(sweep.points.back().budget) << "\n";
  for (const std::string& file : {arguments.csv, arguments.plot}) {
    if (!file.empty()) std::cout << "written: " << visible(file) << "\n";
  }
  return kDone;
}

}  // namespace
}  // namespace trireme::app
