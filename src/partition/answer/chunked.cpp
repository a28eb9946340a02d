// SPDX-License-Identifier: Apache-2.0
#include "placement/chunked.h"

#include "answers.h"
#include "judge/judge.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/partition/tried.h"
#include "trireme/schedule/named.h"

#include <string>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

/// The policy that makes programs of chunks.
std::string policy_of(const Question& question) {
  return question.solver == "auto" || question.solver == "madpipe" ? "joint" : question.solver;
}

Answer named_answer(const StageRoom& room, StagePolicy& policy,
                    const schedule::NamedSchedule& named) {
  auto plan = named_plan(room, policy, named);
  if (!plan) return lack_of(room, policy, named);
  require_valid(room.question(), *plan);
  return *std::move(plan);
}

/// The searched plan, with those of the named schedules as alternatives.
Answer searched_answer(const StageRoom& room, StagePolicy& policy) {
  std::vector<Tried> tried;
  for (const schedule::NamedSchedule& named : schedule::named_schedules()) {
    if (named.per_rank == 1) continue;
    tried.push_back(
        try_to(std::string(named.name), [&] { return named_answer(room, policy, named); }));
  }
  tried.push_back(try_to("searched", [&]() -> Answer {
    auto plan = searched_plan(room, policy, kNever);
    if (!plan) return lack_of(room, policy, *schedule::find_schedule("v-min"));
    require_valid(room.question(), *plan);
    return *std::move(plan);
  }));
  const Tried* chosen = fastest(tried);
  if (chosen == nullptr) chosen = leanest(tried);
  if (chosen == nullptr) throw InputError(tried.back().refused);
  if (chosen->plan() == nullptr) return *chosen->infeasible();
  plan::Plan plan = *chosen->plan();
  plan.alternatives = alternatives(tried, *chosen);
  return plan;
}

}  // namespace

Answer plan_chunked(const Question& question) {
  const StageRoom room(question);
  const auto policy = policy_named(question, policy_of(question));
  if (const schedule::NamedSchedule* const named = schedule::find_schedule(question.chunks))
    return named_answer(room, *policy, *named);
  return searched_answer(room, *policy);
}

}  // namespace trireme::partition
