// SPDX-License-Identifier: Apache-2.0
#include "placement/chunked.h"

#include "answers.h"
#include "judge/judge.h"
#include "placement/chunk_layout.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/partition/tried.h"
#include "trireme/schedule/named.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

Answer named_answer(const StageRoom& room, StagePolicy& policy,
                    const schedule::NamedSchedule& named) {
  auto plan = named_plan(room, policy, named);
  if (!plan) return lack_of(room, policy, named);
  require_valid(room.question(), *plan);
  return *std::move(plan);
}

/// The searched plan, with those of the named schedules as alternatives. Where there can be none,
/// as with too few layers, an Infeasible that any other one is better than.
Answer searched_answer(const StageRoom& room, StagePolicy& policy) {
  std::vector<Tried> tried;
  for (const schedule::NamedSchedule& named : schedule::named_schedules()) {
    if (named.per_rank == 1) continue;
    tried.push_back(
        try_to(std::string(named.name), [&] { return named_answer(room, policy, named); }));
  }
  tried.push_back(try_to("searched", [&]() -> Answer {
    auto plan = searched_plan(room, policy);
    if (!plan) return lack_of(room, policy, *schedule::find_schedule("v-min"));
    require_valid(room.question(), *plan);
    return *std::move(plan);
  }));
  const Tried* chosen = fastest(tried);
  if (chosen == nullptr) chosen = leanest(tried);
  if (chosen == nullptr)
    return plan::Infeasible{.last_layer = room.layers(),
                            .needed = kUnlimited,
                            .least_budget = kUnlimited,
                            .where = tried.back().refused};
  if (chosen->plan() == nullptr) return *chosen->infeasible();
  plan::Plan plan = *chosen->plan();
  plan.alternatives = alternatives(tried, *chosen);
  return plan;
}

}  // namespace

Answer plan_chunked(const Question& question) {
  const StageRoom room(question);
  const auto policy = policy_named(question, chunk_policy(question));
  if (const schedule::NamedSchedule* const named = schedule::find_schedule(question.chunks))
    return named_answer(room, *policy, *named);
  return searched_answer(room, *policy);
}

Bytes budget_that_fits(const Question& question, Bytes least) {
  constexpr int kDoublings = 12, kHalvings = 3;
  constexpr std::int64_t kPartAdded = 25;  // of what was not enough, at first
  const auto& named = *schedule::find_schedule(question.chunks);
  const auto fits = [&](Bytes memory) {
    Question roomy = question;
    for (chain::RankSpec& rank : roomy.platform.ranks)
      if (rank.memory > Bytes(0)) rank.memory = std::max(rank.memory, memory);
    const StageRoom room(roomy);
    return named_plan(room, *policy_named(roomy, chunk_policy(roomy)), named).has_value();
  };
  Bytes more = std::max(least / kPartAdded, Bytes(1)), enough = least;
  for (int round = 0; round < kDoublings && !fits(enough); ++round) {
    least = enough;
    enough += more;
    more = more * 2;
  }
  for (int round = 0; round < kHalvings && enough > least; ++round) {
    const Bytes middle = least + (enough - least) / 2;
    (fits(middle) ? enough : least) = middle;
  }
  return enough;
}

}  // namespace trireme::partition
