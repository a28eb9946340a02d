// SPDX-License-Identifier: Apache-2.0
#include "plan_builder.h"

#include "judge.h"
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
  for (int round = 0; round < kTightenings; ++round) {
    auto programs = how == How::kChosen ? chosen_programs(room_, policy(name), cut, less)
                                        : fastest_programs(name, cut, less, how == How::kCopies);
    if (!programs) return std::nullopt;
    std::vector<Bytes> over(cut.size());
    if (auto plan = within_budgets(name, *std::move(programs), &over)) return plan;
    if (over == std::vector<Bytes>(cut.size())) break;  // it is the outer tier that overflows
    for (std::size_t k = 0; k < cut.size(); ++k) less[k] += over[k];
  }
  return std::nullopt;
}

plan::Plan PlanBuilder::mixed(plan::Plan plan, const plan::Plan& other) {
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    if (plan.stages[k].program == other.stages[k].program) continue;
    std::vector<program::StageProgram> programs;
    for (const plan::StagePlan& stage : plan.stages) programs.push_back(stage.program);
    programs[k] = other.stages[k].program;
    auto tried = within_budgets(plan.solver, std::move(programs), nullptr);
    if (tried && tried->step < plan.step) plan = *std::move(tried);
  }
  return plan;
}

std::optional<plan::Plan> PlanBuilder::within_budgets(const std::string& name,
                                                      std::vector<program::StageProgram> programs,
                                                      std::vector<Bytes>* over) const {
  const Question& question = room_.question();
  const std::size_t stages = programs.size();
  Judged result = judged(question, name, std::move(programs));
  bool fits = true;
  for (std::size_t k = 0; k < stages; ++k) {
    const chain::RankSpec& rank = question.platform.ranks[k];
    const simulate::RankResult& ran = result.simulation.ranks[k];
    fits = fits && ran.outer.all() <= rank.outer();
    if (rank.memory == Bytes(0) || needed(ran) <= rank.memory) continue;
    if (over != nullptr) (*over)[k] = needed(ran) - rank.memory;
    fits = false;
  }
  if (!fits) return std::nullopt;
  return std::move(result.plan);
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
