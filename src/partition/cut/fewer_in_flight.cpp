// SPDX-License-Identifier: Apache-2.0
#include "fewer_in_flight.h"

#include "cut_search.h"
#include "in_flight.h"
#include "judge/judge.h"
#include "memory/rank.h"
#include "shortage.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

/// How often numbers in flight are counted anew.
constexpr int kRounds = 3;
/// Of a step, what must be recomputation for shared numbers to be tried.
constexpr double kWorthSharing = 0.01;
/// Sizes in a row without a gain, after which larger ones are not tried.
constexpr int kMisses = 2;
/// A size that is so much slower leaves larger ones no hope.
constexpr double kHopeless = 1.1;
/// Cuts that are simulated for a size.
constexpr int kCuts = 4;

/// What 1F1B* says for the period of this plan, at most what the schedule has.
std::vector<int> counts_for(const StageRoom& room, const plan::Plan& plan);

/// The fastest plan with these numbers in flight.
std::optional<plan::Plan> fastest_with(const Question& question, const PlanBuilder& other,
                                       int most_cuts = kCuts);

}  // namespace

// Stages that keep little for others keep more of their own, so that they run less again, and the
// numbers may sink once more.
std::optional<plan::Plan> with_fewer_in_flight(const StageRoom& room, const PlanBuilder& builder,
                                               plan::Plan plan) {
  const Question& question = room.question();
  if (!may_have_fewer_in_flight(question) || plan.recompute == Seconds(0)) return std::nullopt;
  const Seconds before = plan.step;
  Cut cut;
  for (const plan::StagePlan& stage : plan.stages) cut.push_back(stage.program.last_layer);
  Question fewer = question;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<int> counts = counts_for(room, plan);
    if (counts == fewer.in_flight) break;
    fewer.in_flight = std::move(counts);
    const StageRoom changed(fewer);
    auto found = PlanBuilder(changed, builder).built("joint", cut, PlanBuilder::How::kChosen);
    if (!found || found->step >= plan.step * (1 - kGain)) break;
    plan = *std::move(found);
  }
  if (plan.step >= before) return std::nullopt;
  return plan;
}

std::optional<plan::Plan> with_faster_shared_counts(const StageRoom& room, PlanBuilder& builder,
                                                    const plan::Plan& plan) {
  const Question& question = room.question();
  if (!may_have_fewer_in_flight(question) || plan.recompute < plan.step * kWorthSharing)
    return std::nullopt;
  std::optional<plan::Plan> best;
  int misses = 0;
  for (int size = 2; size <= question.stages && misses < kMisses; size += size / 3 + 1) {
    const Question shared = with_shared_counts(question, size);
    const Seconds least = best ? best->step : plan.step;
    auto found = fastest_with(shared, builder, /*most_cuts=*/1);
    if (!found || found->step > least * kHopeless) break;
    const bool is_faster = found->step < least * (1 - kGain);
    misses = is_faster ? 0 : misses + 1;
    if (is_faster) best = question.cut ? std::move(found) : fastest_with(shared, builder);
  }
  return best;
}

bool may_have_fewer_in_flight(const Question& question) {
  return question.schedule == "1f1b" && question.in_flight.empty();
}

Question with_shared_counts(const Question& question, int size) {
  Question fewer = question;
  fewer.in_flight.clear();
  for (int k = 0; k < question.stages; ++k)
    fewer.in_flight.push_back((question.stages - k - 1) / size + 1);
  return fewer;
}

// What a stage needs at least never falls with its number in flight, so the size is found by
// bisection. With the least that fits, stages may have to run so much again that larger ones are
// faster: they grow by a third as long as that helps.
std::optional<plan::Plan> where_fewer_in_flight_fit(const StageRoom& room, PlanBuilder& builder) {
  const Question& question = room.question();
  if (!may_have_fewer_in_flight(question)) return std::nullopt;
  const auto enough = [&](int size) {
    const Question fewer = with_shared_counts(question, size);
    return fits(StageRoom(fewer), builder.policy("joint"));
  };
  int too_small = 1, size = question.stages;
  if (size == too_small || !enough(size)) return std::nullopt;
  while (size - too_small > 1) {
    const int middle = std::midpoint(too_small, size);
    (enough(middle) ? size : too_small) = middle;
  }
  std::optional<plan::Plan> best;
  for (; size <= question.stages; size += size / 3 + 1) {
    auto plan = fastest_with(with_shared_counts(question, size), builder);
    if (best && (!plan || plan->step >= best->step * (1 - kGain))) break;
    best = std::move(plan);
  }
  return best;
}

namespace {

std::optional<plan::Plan> fastest_with(const Question& question, const PlanBuilder& other,
                                       int most_cuts) {
  const StageRoom room(question);
  PlanBuilder builder(room, other);
  const std::optional<Cut> fixed = fixed_cut(question);
  const std::vector<Cut> cuts =
      fixed ? std::vector<Cut>{*fixed}
            : CutSearch(room, builder.policy("joint")).candidates(most_cuts);
  std::optional<plan::Plan> best;
  for (const Cut& cut : cuts) {
    for (const PlanBuilder::How how : {PlanBuilder::How::kPlain, PlanBuilder::How::kChosen}) {
      auto plan = builder.built("joint", cut, how);
      if (plan && (!best || plan->step < best->step)) best = std::move(plan);
    }
  }
  return best;
}

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
