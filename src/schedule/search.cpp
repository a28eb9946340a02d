// SPDX-License-Identifier: Apache-2.0
#include "trireme/schedule/search.h"

#include "list_schedule.h"
#include "local_search.h"
#include "rules.h"

#include "trireme/core/error.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace trireme::schedule {
namespace {

class Search {
 public:
  Search(const Workload& workload, const SearchEffort& effort, Seconds bound);

  void begin_with(const std::vector<Order>& given);
  void schedule_lists();
  void move_passes();
  SearchedOrder best() const;

 private:
  /// An order to move passes of, and its step.
  using Start = std::pair<Ticks, Lists>;

  /// Keeps an order if it fits and is the fastest; its step if it fits.
  std::optional<Seconds> consider(const Order& order);
  void add_start(const ListSchedule& made);
  bool is_optimal() const { return order_ && step_ <= bound_ * (1 + kTolerance); }
  /// Rounded so that the last digits of the bound, which depend on the machine, do not count.
  Ticks target() const { return instance_.ticks(bound_ * (1 + kTolerance)) >> 12U << 12U; }

  static constexpr double kTolerance = 1e-6;  // by which times in ticks are off at most
  static constexpr int kFewPasses = 256;      // an order of fewer is given as many moves
  static constexpr int kHeat = 30;            // in periods, times passes and five: see Annealing
  static constexpr int kFirstRules = 3;       // usual rules that are changed,
  static constexpr int kBriefChanges = 12;    // so often altogether,
  static constexpr int kBriefShare = 24;      // each with this part of all tries

  const Workload& workload_;
  SearchEffort effort_;
  Seconds bound_;
  Instance instance_;
  std::optional<Order> order_;
  Seconds step_;
  std::vector<Start> starts_;
  std::optional<Start> given_;  ///< fastest of those
};

}  // namespace

std::optional<SearchedOrder> search(const Workload& workload, const SearchEffort& effort,
                                    const std::vector<Order>& also) {
  const Seconds least = bound(workload);
  if (std::isinf(least.count())) return std::nullopt;
  Search search(workload, effort, least);
  search.begin_with(also);
  search.schedule_lists();
  search.move_passes();
  return search.best();
}

namespace {

Search::Search(const Workload& workload, const SearchEffort& effort, Seconds bound)
    : workload_(workload), effort_(effort), bound_(bound), instance_(workload) {}

void Search::begin_with(const std::vector<Order>& given) {
  for (const Order& order : given) {
    require_sound(order, workload_.placement);
    const bool trains = std::any_of(order[0].begin(), order[0].end(),
                                    [](Pass pass) { return is_backward(pass.kind); });
    if (!trains || micro_batches_of(order, workload_.placement) != workload_.micro_batches)
      continue;
    consider(order);
    Lists lists = to_lists(instance_, order);
    if (const auto step = consider(to_order(instance_, lists)))
      if (const Ticks ticks = instance_.ticks(*step); !given_ || ticks < given_->first)
        given_ = {ticks, std::move(lists)};
  }
}

void Search::schedule_lists() {
  if (is_optimal()) return;
  ListScheduler scheduler(instance_);
  const std::vector<TriedRule> tried = usual_rules(instance_, scheduler);
  const TriedRule* best = &tried.front();
  add_start(best->made);
  std::vector<TriedRule> changed;
  changed.reserve(kBriefChanges + 1);
  const auto change = [&](const TriedRule& start, int tries) {
    if (is_optimal()) return;
    changed.push_back(change_rule(
        instance_, scheduler, start,
        {.tries = tries, .target = target(), .seed = effort_.seed * 100 + changed.size()}));
    if (changed.back().made.step < best->made.step) best = &changed.back();
    add_start(changed.back().made);
  };
  const int brief = effort_.rules / kBriefShare;
  for (std::size_t i = 0; i < kBriefChanges; ++i)
    change(tried[std::min(i % kFirstRules, tried.size() - 1)], brief);
  change(*best, effort_.rules - kBriefChanges * brief);
}

void Search::move_passes() {
  std::stable_sort(starts_.begin(), starts_.end(),
                   [](const Start& a, const Start& b) { return a.first < b.first; });
  starts_.erase(std::unique(starts_.begin(), starts_.end()), starts_.end());
  starts_.resize(std::min(starts_.size(), static_cast<std::size_t>(effort_.starts)));
  if (given_) starts_.push_back(std::move(*given_));
  // Small orders take no time, and need more moves for each of their passes.
  const int moves = effort_.moves_per_pass * std::max(instance_.passes(), kFewPasses);
  for (const auto& [step, lists] : starts_) {
    if (is_optimal() || moves == 0) return;
    const FoundLists found = anneal(instance_, lists,
                                    {.moves = moves,
                                     .target = target(),
                                     .heat = instance_.period() * kHeat,
                                     .seed = effort_.seed});
    consider(to_order(instance_, found.lists));
  }
}

SearchedOrder Search::best() const {
  ensure(order_.has_value(), "an order with one micro-batch at a time always fits");
  return {.order = *order_, .step = step_, .bound = bound_};
}

std::optional<Seconds> Search::consider(const Order& order) {
  const auto times = timed(workload_, order);
  if (!times || !fits(workload_, *times)) return std::nullopt;
  if (!order_ || times->step < step_) {
    order_ = order;
    step_ = times->step;
  }
  return times->step;
}

void Search::add_start(const ListSchedule& made) {
  starts_.emplace_back(made.step, made.lists);
  consider(to_order(instance_, made.lists));
}

}  // namespace
}  // namespace trireme::schedule
