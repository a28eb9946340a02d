// SPDX-License-Identifier: Apache-2.0
#include "fewer_in_flight.h"

#include "in_flight.h"
#include "judge.h"
#include "plan_builder.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

/// How often numbers in flight are counted anew.
constexpr int kRounds = 3;
/// Least gain that counts, relative.
constexpr double kGain = 1e-9;

/// What 1F1B* says for the period of this plan, at most what the schedule has.
std::vector<int> counts_for(const StageRoom& room, const plan::Plan& plan);

}  // namespace

// Stages that keep little for others keep more of their own, so that they run less again, and the
// numbers may sink once more.
std::optional<plan::Plan> with_fewer_in_flight(const StageRoom& room, plan::Plan plan) {
  const Question& question = room.question();
  const bool usual = question.schedule == "1f1b" && question.in_flight.empty();
  if (!usual || plan.recompute == Seconds(0)) return std::nullopt;
  const Seconds before = plan.step;
  Cut cut;
  for (const plan::StagePlan& stage : plan.stages) cut.push_back(stage.program.last_layer);
  Question fewer = question;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<int> counts = counts_for(room, plan);
    if (counts == fewer.in_flight) break;
    fewer.in_flight = std::move(counts);
    const StageRoom changed(fewer);
    PlanBuilder builder(changed);
    auto found = builder.built("joint", cut, PlanBuilder::How::kChosen);
    if (!found || found->step >= plan.step * (1 - kGain)) break;
    plan = *std::move(found);
  }
  if (plan.step >= before) return std::nullopt;
  return plan;
}

namespace {

std::vector<int> counts_for(const StageRoom& room, const plan::Plan& plan) {
  std::vector<double> stages, links;
  for (std::size_t k = 0; k < plan.stages.size(); ++k) {
    const plan::StagePlan& stage = plan.stages[k];
    stages.push_back((stage.predicted.forward + stage.predicted.backward).count());
    if (k + 1 < plan.stages.size())
      links.push_back(2 * room.transfer(static_cast<int>(k), stage.program.last_layer));
  }
  double period = *std::max_element(stages.begin(), stages.end());
  for (const double link : links) period = std::max(period, link);
  std::vector<int> counts = least_in_flight(stages, links, period);
  for (std::size_t k = 0; k < counts.size(); ++k)
    counts[k] = std::min(counts[k], in_flight(room.question(), static_cast<int>(k)));
  return counts;
}

}  // namespace
}  // namespace trireme::partition
