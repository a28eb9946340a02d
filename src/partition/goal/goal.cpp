// SPDX-License-Identifier: Apache-2.0
#include "trireme/partition/goal.h"

#include "in_time.h"
#include "trade_off.h"

#include <utility>

namespace trireme::partition {
namespace {

constexpr const char* kLeastTime = "least time";

Explained fastest_in_time(const Question& question, const Deadline& deadline) {
  Explained fastest = explained_plan(question);
  fastest.answer = in_time(question, std::move(fastest.answer), deadline);
  return fastest;
}

}  // namespace

Explained plan_for(const Question& question, const Goal& goal) {
  if (goal.objective == Objective::kTime) return fastest_in_time(question, goal.deadline);
  Traded traded = trade_off(question, goal.deadline);
  const auto* const fastest = std::get_if<plan::Plan>(&traded.fastest.answer);
  if (fastest == nullptr) return std::move(traded.fastest);
  plan::Plan chosen = *leanest_by(traded.plans, goal.deadline.of(fastest->step));
  chosen.alternatives = {{.policy = kLeastTime, .step = fastest->step, .infeasible = {}}};
  return {std::move(chosen), std::move(traded.fastest.reasons)};
}

Seconds fastest_step(const plan::Plan& chosen) {
  for (const plan::Alternative& other : chosen.alternatives)
    if (other.policy == kLeastTime && other.step) return *other.step;
  return chosen.step;
}

}  // namespace trireme::partition
