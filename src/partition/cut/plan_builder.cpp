// SPDX-License-Identifier: Apache-2.0
#include "plan_builder.h"

#include "judge/judge.h"
#include "variants.h"

#include <utility>

namespace trireme::partition {
namespace {

/// How often a plan over a budget is solved again with less.
constexpr int kTightenings = 6;

}  // namespace

StagePolicy& PlanBuilder::policy(const std::string& name) {
  std::shared_ptr<StagePolicy>& policy = policies_[name];
  if (!policy) policy = policy_named(room_.question(), name);
  return *policy;
}

std::optional<plan::Plan> PlanBuilder::built(const std::string& name, const Cut& cut, How how) {
  std::vector<Bytes> less(cut.size());
  const auto make = [&](const std::vector<Bytes>& now_less) -> std::optional<Simulated> {
    auto programs = how == How::kChosen
                        ? chosen_programs(room_, policy(name), cut, now_less)
                        : fastest_programs(name, cut, now_less, how == How::kCopies);
    if (!programs) return std::nullopt;
    return judged(room_.question(), name, *std::move(programs));
  };
  auto found = tightened(room_.question(), kTightenings, less, make);
  return found ? std::optional(std::move(found->plan)) : std::nullopt;
}

plan::Plan PlanBuilder::mixed(plan::Plan plan, const plan::Plan& other) {
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    if (plan.stages[k].program == other.stages[k].program) continue;
    std::vector<program::StageProgram> programs;
    for (const plan::StagePlan& stage : plan.stages) programs.push_back(stage.program);
    programs[k] = other.stages[k].program;
    Simulated tried = judged(room_.question(), plan.solver, std::move(programs));
    if (tried.plan.step < plan.step && is_within(room_.question(), tried.simulation))
      plan = std::move(tried.plan);
  }
  return plan;
}

std::optional<std::vector<program::StageProgram>> PlanBuilder::fastest_programs(
    const std::string& name, const Cut& cut, const std::vector<Bytes>& less, bool copies) {
  std::vector<program::StageProgram> programs;
  const auto first = [&](std::size_t k) { return k == 0 ? 1 : cut[k - 1] + 1; };
  for (std::size_t k = 0; k < cut.size(); ++k)
    if (!room_.may_fit(static_cast<int>(k), first(k), cut[k])) return std::nullopt;
  for (std::size_t k = 0; k < cut.size(); ++k) {
    StageQuestion asked = room_.asked(static_cast<int>(k), first(k), cut[k], copies);
    asked.memory -= less[k];
    std::optional<program::StageProgram> program;
    if (asked.memory >= Bytes(0)) program = policy(name).program(asked);
    if (!program) return std::nullopt;
    programs.push_back(*std::move(program));
  }
  return programs;
}

}  // namespace trireme::partition
