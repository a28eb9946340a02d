// SPDX-License-Identifier: Apache-2.0
#include "trireme/schedule/search.h"

#include "list_schedule.h"
#include "local_search.h"
#include "rules.h"

#include "trireme/core/error.h"

#include <algorithm>
#include <cmath>

namespace trireme::schedule {
namespace {

/// An order to begin with.
struct Start {
  Order order;
  Seconds step;
};

class Search {
 public:
  Search(const Workload& workload, const SearchEffort& effort, Seconds bound);
  void add_given(const std::vector<Order>& also);
  void add_list_schedules();
  SearchedOrder best();

 private:
  /// Adds an order if it fits and no other is the same.
  void add(Order order);
  void improve(const Start& start);
  bool is_optimal() const { return best_.step <= bound_ * (1 + kTolerance); }

  static constexpr double kTolerance = 1e-6;  // what times in ticks may be off

  const Workload& workload_;
  const SearchEffort& effort_;
  Seconds bound_;
  Instance instance_;
  std::vector<Start> starts_;
  Start best_;
};

}  // namespace

std::optional<SearchedOrder> search(const Workload& workload, const SearchEffort& effort,
                                    const std::vector<Order>& also) {
  const Seconds least = bound(workload);
  if (std::isinf(least.count())) return std::nullopt;
  Search search(workload, effort, least);
  search.add_given(also);
  search.add_list_schedules();
  return search.best();
}

namespace {

Search::Search(const Workload& workload, const SearchEffort& effort, Seconds bound)
    : workload_(workload), effort_(effort), bound_(bound), instance_(workload) {}

void Search::add_given(const std::vector<Order>& also) {
  for (const Order& order : also) {
    require_sound(order, workload_.placement);
    const bool trains = micro_batches_of(order, workload_.placement) == workload_.micro_batches &&
                        std::any_of(order[0].begin(), order[0].end(),
                                    [](Pass pass) { return is_backward(pass.kind); });
    if (!trains) continue;
    add(order);
    add(to_order(instance_, to_lists(instance_, order)));
  }
}

void Search::add_list_schedules() {
  for (Rule& rule : rules(instance_))
    if (const auto lists = flexible_list_schedule(instance_, std::move(rule)))
      add(to_order(instance_, *lists));
}

SearchedOrder Search::best() {
  ensure(!starts_.empty(), "an order for one micro-batch at a time always fits");
  std::stable_sort(starts_.begin(), starts_.end(),
                   [](const Start& a, const Start& b) { return a.step < b.step; });
  best_ = starts_.front();
  for (std::size_t i = 0; i < starts_.size() && std::cmp_less(i, effort_.starts); ++i)
    improve(starts_[i]);
  return {.order = best_.order, .step = best_.step, .bound = bound_};
}

void Search::add(Order order) {
  const auto times = timed(workload_, order);
  if (!times || !fits(workload_, *times)) return;
  for (const Start& other : starts_)
    if (other.step == times->step && other.order == order) return;
  starts_.push_back({std::move(order), times->step});
}

void Search::improve(const Start& start) {
  if (is_optimal() || effort_.moves_per_pass == 0) return;
  const Ticks target = instance_.ticks(bound_ * (1 + kTolerance));
  const FoundLists found =
      anneal(instance_, to_lists(instance_, start.order),
             {.moves = effort_.moves_per_pass * instance_.passes(),
              .target = target,
              .heat = instance_.period() * 58,
              .seed = effort_.seed});
  Order order = to_order(instance_, found.lists);
  const auto times = timed(workload_, order);
  ensure(times && fits(workload_, *times), "a move of a pass keeps to the rooms");
  if (times->step < best_.step) best_ = {std::move(order), times->step};
}

}  // namespace
}  // namespace trireme::schedule
