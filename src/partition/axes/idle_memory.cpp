// SPDX-License-Identifier: Apache-2.0
#include "idle_memory.h"

#include "judge/judge.h"
#include "memory/state_away.h"
#include "memory/streamed_layers.h"
#include "optimizer_place.h"
#include "values/effort.h"
#include "widest_gap.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace trireme::partition {
namespace {

/// How often more memory is tried, less often for large questions; least of the budgets that is
/// worth it, and least gain, as shares.
constexpr int kLooks = 4, kLooksAtLarge = 2;
constexpr double kWorthIt = 0.01, kGain = 1e-3;
/// Of a budget, one part in so many stays free: beside streamed weights a step holds some hundred
/// bytes that no layer's profile has, such as sums of squares for the norm.
constexpr std::int64_t kMargin = 512;

class IdleMemorySearch {
 public:
  IdleMemorySearch(const Question& question, plan::Plan plan, const Planner& planner);
  plan::Plan best();

 private:
  /// Of each rank, what the best plan so far leaves of its budget.
  std::vector<Bytes> idle() const;
  bool is_worth_it(const std::vector<Bytes>& idle) const;
  /// What a rank's planner counts for the streamed weights of all layers.
  Bytes window() const;
  /// Fastest of the plans for so much more than the budgets that are within them.
  std::optional<plan::Plan> look(const std::vector<Bytes>& more);
  void take(const Question& loose, std::optional<plan::Plan>& fastest) const;
  /// Least number of layers that saves no more than that less than those streamed now.
  int fewest(Bytes less) const;

  const Question& question_;
  Question tighter_;  ///< less what a peak may be over its prediction
  Question placed_;   ///< with the places of the first plan
  bool may_stream_fewer_;
  plan::Plan best_;
  const Planner& planner_;
};

Bytes times(double share, Bytes bytes) {
  return Bytes(static_cast<std::int64_t>(share * static_cast<double>(bytes.count())));
}

Bytes saved(const Question& question, const std::vector<int>& layers) {
  return saved_bytes(question.chain, layers, question.weights_at_once.value());
}

IdleMemorySearch::IdleMemorySearch(const Question& question, plan::Plan plan,
                                   const Planner& planner)
    : question_(question),
      tighter_(question),
      placed_(question),
      may_stream_fewer_(!question.streamed),
      best_(std::move(plan)),
      planner_(planner) {
  for (chain::RankSpec& rank : tighter_.platform.ranks) rank.memory -= rank.memory / kMargin;
  placed_.streamed = streamed_by(best_);
  placed_.weights_at_once = best_.weights_at_once;
  placed_.group = best_.group;
  if (!placed_.optimizer_copies)
    placed_.optimizer_copies = has_state_away(best_) ? kAnyTime : Seconds(0);
}

plan::Plan IdleMemorySearch::best() {
  std::vector<Bytes> more(question_.platform.ranks.size());
  double share = 1;
  const int looks = is_large(question_) ? kLooksAtLarge : kLooks;
  for (int k = 0; k < looks; ++k) {
    std::vector<Bytes> tried = idle();
    // A program that fills its memory where the weights are may be one of several that fit.
    const bool may_be_other = question_.stages == 1 && more.front() == Bytes(0) &&
                              question_.platform.ranks.front().memory > Bytes(0);
    if (may_be_other && !is_worth_it(tried)) tried.front() = times(0.5, window());
    for (Bytes& one : tried) one = times(share, one);
    if (!is_worth_it(tried)) break;
    for (std::size_t rank = 0; rank < tried.size(); ++rank) tried[rank] += more[rank];
    auto plan = look(tried);
    if (plan && plan->step * (1 + kGain) < best_.step) {
      plan->alternatives = std::move(best_.alternatives);
      best_ = *std::move(plan);
      more = std::move(tried);
    } else {
      share /= 2;
    }
  }
  return std::move(best_);
}

std::vector<Bytes> IdleMemorySearch::idle() const {
  const simulate::Simulation now = simulated(question_, best_, simulate::Detail::kFigures);
  std::vector<Bytes> idle(question_.platform.ranks.size());
  for (std::size_t rank = 0; rank < now.ranks.size(); ++rank) {
    const Bytes memory = question_.platform.ranks[rank].memory;
    if (memory > Bytes(0)) idle[rank] = memory - needed(now.ranks[rank]);
  }
  return idle;
}

Bytes IdleMemorySearch::window() const {
  Bytes all;
  for (const int layer : *placed_.streamed) all += question_.chain.layer(layer).may_leave().all();
  return all - saved(placed_, *placed_.streamed);
}

bool IdleMemorySearch::is_worth_it(const std::vector<Bytes>& idle) const {
  for (std::size_t rank = 0; rank < idle.size(); ++rank)
    if (static_cast<double>(idle[rank].count()) >
        kWorthIt * static_cast<double>(question_.platform.ranks[rank].memory.count()))
      return true;
  return false;
}

// How many fewer layers do is not known beforehand: what they need may fall on the peak or not. A
// pipeline's plans take long, and few.
std::optional<plan::Plan> IdleMemorySearch::look(const std::vector<Bytes>& more) {
  Question loose = placed_;
  Bytes all;
  for (std::size_t rank = 0; rank < more.size(); ++rank) {
    loose.platform.ranks[rank].memory += more[rank];
    all += more[rank];
  }
  std::optional<plan::Plan> fastest;
  take(loose, fastest);
  std::set<int> counts{static_cast<int>(placed_.streamed->size())};
  const std::vector<double> parts =
      question_.stages == 1 ? std::vector{0.5, 1.0, 2.0} : std::vector{0.5};
  for (const double part : parts) {
    const int fewer = may_stream_fewer_ ? fewest(times(part, all)) : 0;
    if (fewer == 0 || !counts.insert(fewer).second) continue;
    loose.streamed = layers_to_stream(question_.chain, fewer);
    take(loose, fastest);
  }
  return fastest;
}

void IdleMemorySearch::take(const Question& loose, std::optional<plan::Plan>& fastest) const {
  Answer answer = planner_(loose);
  auto* const found = std::get_if<plan::Plan>(&answer);
  if (found == nullptr) return;
  if (!has_no_copies(loose) && !question_.optimizer_copies)
    *found = with_room_used(loose, std::move(*found));
  auto plan = on_budgets(tighter_, std::move(*found));
  if (plan) plan = on_budgets(question_, *std::move(plan));  // with its own predictions
  if (plan && (!fastest || plan->step < fastest->step)) fastest = std::move(plan);
}

int IdleMemorySearch::fewest(Bytes less) const {
  const Bytes least = saved(placed_, *placed_.streamed) - less;
  int low = 0, high = static_cast<int>(placed_.streamed->size());
  while (low < high) {
    const int middle = low + (high - low) / 2;
    const bool is_enough = saved(placed_, layers_to_stream(question_.chain, middle)) >= least;
    (is_enough ? high : low) = is_enough ? middle : middle + 1;
  }
  return low;
}

}  // namespace

Answer with_idle_memory_used(const Question& question, Answer answer, const Planner& planner) {
  auto* const plan = std::get_if<plan::Plan>(&answer);
  if (plan == nullptr || plan::streamed_weights(*plan, question.chain).empty()) return answer;
  return IdleMemorySearch(question, std::move(*plan), planner).best();
}

}  // namespace trireme::partition
