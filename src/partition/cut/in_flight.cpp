// SPDX-License-Identifier: Apache-2.0
#include "in_flight.h"

#include "memory/rank.h"
#include "shortage.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace trireme::partition {
namespace {

/// Rounding error of sums of times, in periods.
constexpr double kSame = 1e-9;
/// Most recomputations of the numbers in flight.
constexpr int kRounds = 3;
/// Least share of recomputation in a step for shared numbers to be tried.
constexpr double kWorthSharing = 0.01;
/// Consecutive sizes without a gain after which larger ones are not tried.
constexpr int kMisses = 2;
/// Larger sizes are not tried after one that is slower by this factor.
constexpr double kHopeless = 1.1;
/// Cuts simulated per size.
constexpr int kCuts = 4;

double periods(Seconds time, Seconds period) {
  return std::ceil(time / period - kSame);
}

int larger(int size) {
  return size + size / 3 + 1;
}

/// Whether numbers in flight other than the schedule's may be tried.
bool may_have_fewer_in_flight(const Question& question) {
  return question.schedule == "1f1b" && question.in_flight.empty() && question.solver != "madpipe";
}

/// Numbers in flight of 1F1B* for the period of this plan, at most the schedule's.
std::vector<int> counts_for(const StageRoom& room, const plan::Plan& plan) {
  std::vector<Seconds> stages, links;
  Seconds period;
  for (const plan::StagePlan& stage : plan.stages) {
    const int k = static_cast<int>(stages.size());
    stages.push_back(stage.predicted.forward + stage.predicted.backward);
    period = std::max(period, stages.back());
    if (k + 1 == std::ssize(plan.stages)) break;
    links.push_back(2 * room.transfer(k, stage.program.last_layer));
    period = std::max(period, links.back());
  }
  std::vector<int> counts = least_in_flight(stages, links, period);
  for (std::size_t k = 0; k < counts.size(); ++k)
    counts[k] = std::min(counts[k], in_flight(room.question(), static_cast<int>(k)));
  return counts;
}

/// A faster plan on the cut of `plan`, each stage with as many in flight as 1F1B* needs for the
/// plan's period. With fewer in flight stages recompute less, so their numbers may fall once more.
std::optional<plan::Plan> for_its_period(const StageRoom& room, const PlanBuilder& builder,
                                         const plan::Plan& plan) {
  if (plan.recompute == Seconds(0)) return std::nullopt;
  const Cut cut = cut_of(plan);
  Question fewer = room.question();
  std::optional<plan::Plan> best;
  for (int round = 0; round < kRounds; ++round) {
    const plan::Plan& before = best ? *best : plan;
    std::vector<int> counts = counts_for(room, before);
    if (counts == fewer.in_flight) break;
    fewer.in_flight = std::move(counts);
    const StageRoom changed(fewer);
    auto found = PlanBuilder(changed, builder).built("joint", cut, PlanBuilder::How::kChosen);
    if (!found || found->step >= before.step * (1 - kGain)) break;
    best = std::move(found);
  }
  return best;
}

/// The fastest plan with these numbers in flight.
std::optional<plan::Plan> fastest_with(const Question& question, const PlanBuilder& other,
                                       int most_cuts = kCuts) {
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

/// A plan faster than `plan`, on any cut, in which neighbouring stages share a number in flight.
/// Where memory just suffices for the schedule's numbers, these leave so little for tapes that
/// nearly everything is recomputed.
std::optional<plan::Plan> with_faster_shared_counts(const Question& question,
                                                    const PlanBuilder& builder,
                                                    const plan::Plan& plan) {
  if (plan.recompute < plan.step * kWorthSharing) return std::nullopt;
  std::optional<plan::Plan> best;
  int misses = 0;
  for (const int size : sizes_that_share_a_count(question)) {
    if (misses == kMisses) break;
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

/// For when no cut fits with the schedule's numbers. What a stage needs at least never falls with
/// its number in flight, so the least size that fits is found by bisection. Stages may then
/// recompute so much that larger sizes are faster: sizes grow by a third as long as that helps.
std::optional<plan::Plan> with_fitting_shared_counts(const Question& question,
                                                     PlanBuilder& builder) {
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
  for (; size <= question.stages; size = larger(size)) {
    auto plan = fastest_with(with_shared_counts(question, size), builder);
    if (best && (!plan || plan->step >= best->step * (1 - kGain))) break;
    best = std::move(plan);
  }
  return best;
}

}  // namespace

std::vector<int> least_in_flight(const std::vector<Seconds>& stages,
                                 const std::vector<Seconds>& links, Seconds period) {
  std::vector<int> counts(stages.size());
  Seconds time;
  for (std::size_t k = stages.size(); k-- > 0;) {
    if (k < links.size() && links[k] > Seconds(0)) time = time_in_flight(links[k], time, period);
    time = time_in_flight(stages[k], time, period);
    counts[k] = begun_within(time, period);
  }
  return counts;
}

// Forward and backward must not overlap the forward of another micro-batch, so what does not fit
// into the period that has begun waits for the next.
Seconds time_in_flight(Seconds own, Seconds taken, Seconds period) {
  if (taken == Seconds(0)) return own;
  const Seconds whole = periods(taken, period) * period;
  return taken + own <= whole + kSame * period ? taken + own : whole + own;
}

int begun_within(Seconds time, Seconds period) {
  return static_cast<int>(std::max(1.0, periods(time, period)));
}

std::vector<int> sizes_that_share_a_count(const Question& question) {
  std::vector<int> sizes;
  if (!may_have_fewer_in_flight(question)) return sizes;
  for (int size = 2; size < question.stages; size = larger(size)) sizes.push_back(size);
  if (question.stages > 1) sizes.push_back(question.stages);
  return sizes;
}

Question with_shared_counts(const Question& question, int size) {
  Question fewer = question;
  fewer.in_flight.clear();
  for (int k = 0; k < question.stages; ++k)
    fewer.in_flight.push_back((question.stages - k - 1) / size + 1);
  return fewer;
}

Question with_fewest_in_flight(const Question& question) {
  const bool may_be_fewer = may_have_fewer_in_flight(question);
  return may_be_fewer ? with_shared_counts(question, question.stages) : question;
}

std::optional<plan::Plan> with_fewer_in_flight(const StageRoom& room, PlanBuilder& builder,
                                               const plan::Plan* usual, bool fits) {
  const Question& question = room.question();
  if (!may_have_fewer_in_flight(question)) return std::nullopt;
  if (!fits) return with_fitting_shared_counts(question, builder);
  if (usual == nullptr) return std::nullopt;
  auto plan = for_its_period(room, builder, *usual);
  auto shared = with_faster_shared_counts(question, builder, plan ? *plan : *usual);
  return shared ? shared : plan;
}

}  // namespace trireme::partition
