// SPDX-License-Identifier: Apache-2.0
#include "early.h"

#include "judge/judge.h"
#include "stage/recompute_early.h"
#include "values/lookup.h"

#include <optional>
#include <utility>

namespace trireme::partition {
namespace {

/// The rank's memory without what its other stages keep.
Bytes left_for(const plan::Plan& plan, std::size_t stage, Bytes memory,
               const std::vector<int>& in_flight) {
  if (memory == kUnlimited) return memory;
  for (std::size_t other = 0; other < plan.stages.size(); ++other)
    if (other != stage && plan.stages[other].rank == plan.stages[stage].rank)
      memory -= plan.stages[other].predicted.kept * in_flight[other];
  return memory;
}

}  // namespace

plan::Plan with_early_recomputation(const StageRoom& room, plan::Plan plan,
                                    const std::function<Bytes(int)>& memory,
                                    const std::vector<int>& in_flight) {
  const Question& question = room.question();
  for (std::size_t k = 0; plan.recompute > Seconds(0) && k + 1 < plan.stages.size(); ++k) {
    const program::StageProgram& now = plan.stages[k].program;
    const StageQuestion asked{.layers = {now.first_layer, now.last_layer},
                              .memory = left_for(plan, k, memory(plan.stages[k].rank), in_flight),
                              .in_flight = in_flight[k]};
    program::StageProgram early = recompute_early(question.chain, asked, now);
    if (early == now) continue;
    std::vector<program::StageProgram> programs;
    for (const plan::StagePlan& stage : plan.stages) programs.push_back(stage.program);
    programs[k] = std::move(early);
    auto found = judged(
        question, plan.solver, std::move(programs),
        {.ranks = plan::placement(plan), .order = plan::order_of(plan), .schedule = plan.schedule});
    if (!found || found->plan.step >= plan.step || !is_within(question, found->simulation))
      continue;
    found->plan.order_bound = plan.order_bound;
    plan = std::move(found->plan);
  }
  return plan;
}

}  // namespace trireme::partition
