// SPDX-License-Identifier: Apache-2.0
#include "tapes.h"

#include "trireme/simulate/place_copies.h"

#include <algorithm>
#include <utility>

namespace trireme::prepare {
namespace {

using Result = std::variant<Prepared, Misfit>;

bool is_better(const Prepared& lean, const Prepared& full, const partition::Goal& goal);
Misfit nearer(const Misfit& full, const Misfit& lean);

}  // namespace

bool keeps_everything(const Result& result) {
  const auto* const prepared = std::get_if<Prepared>(&result);
  return prepared != nullptr && prepared->forecast->simulation.recompute == Seconds(0) &&
         std::none_of(prepared->program.ranks.begin(), prepared->program.ranks.end(),
                      simulate::has_copies);
}

bool has_smaller_tapes(const chain::Chain& lean, const chain::Chain& full) {
  for (int i = 1; i <= full.length(); ++i)
    if (lean.layer(i).tape < full.layer(i).tape) return true;
  return false;
}

Result better_of(Result full, Result lean, const partition::Goal& goal) {
  const auto* const a = std::get_if<Prepared>(&full);
  const auto* const b = std::get_if<Prepared>(&lean);
  if (a != nullptr && b != nullptr) return is_better(*b, *a, goal) ? lean : full;
  if (a != nullptr || b != nullptr) return a != nullptr ? full : lean;
  return nearer(std::get<Misfit>(full), std::get<Misfit>(lean));
}

namespace {

bool is_better(const Prepared& lean, const Prepared& full, const partition::Goal& goal) {
  if (goal.objective == partition::Objective::kTime)
    return lean.forecast->simulation.step < full.forecast->simulation.step;
  const plan::Plan &a = full.plan, &b = lean.plan;
  const Seconds deadline =
      goal.deadline.of(std::min(partition::fastest_step(a), partition::fastest_step(b)));
  const bool is_in_time = b.step <= deadline;
  if (is_in_time != (a.step <= deadline)) return is_in_time;
  return b.energy < a.energy;
}

Misfit nearer(const Misfit& full, const Misfit& lean) {
  const plan::Infeasible &a = full.infeasible, &b = lean.infeasible;
  constexpr auto kLate = plan::Infeasible::Reason::kDeadline;
  if (a.reason != kLate || b.reason != kLate) {
    if (a.reason == kLate || b.reason == kLate) return a.reason == kLate ? full : lean;
    return b.least_budget < a.least_budget ? lean : full;
  }
  Misfit nearest = b.least_step < a.least_step ? lean : full;
  if (a.least_budget > Bytes(0) && b.least_budget > Bytes(0))
    nearest.infeasible.least_budget = std::min(a.least_budget, b.least_budget);
  else
    nearest.infeasible.least_budget = std::max(a.least_budget, b.least_budget);
  return nearest;
}

}  // namespace
}  // namespace trireme::prepare
