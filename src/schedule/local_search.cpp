// SPDX-License-Identifier: Apache-2.0
#include "local_search.h"

#include "order_graph.h"
#include "random.h"

#include <algorithm>

namespace trireme::schedule {
namespace {

constexpr int kFarthest = 14;          // places that a pass moves at once
constexpr int kPercentOfLongest = 70;  // of the moves begin at a pass on a longest way
constexpr int kCoolings = 64;
constexpr double kCooling = 0.9306;  // 64 of them leave a hundredth

class Annealer {
 public:
  Annealer(const Instance& instance, const Lists& start, const Annealing& how);
  FoundLists run();

 private:
  void move_once();
  void fill_moved(const std::vector<int>& list, int from, int to);
  int drawn_pass();
  void list_longest();
  Ticks goal() const {
    return static_cast<Ticks>(passes_.size()) * graph_.makespan() + 5 * graph_.excess();
  }

  Annealing how_;
  OrderGraph graph_;
  Random random_;
  std::vector<int> passes_, longest_, moved_;
  bool is_listed_ = false;
  Ticks heat_ = 0, goal_ = 0;
  FoundLists best_;
};

}  // namespace

FoundLists anneal(const Instance& instance, const Lists& start, const Annealing& how) {
  return Annealer(instance, start, how).run();
}

namespace {

Annealer::Annealer(const Instance& instance, const Lists& start, const Annealing& how)
    : how_(how), graph_(instance, start, how.target), random_(how.seed), heat_(how.heat) {
  for (const std::vector<int>& list : start)
    passes_.insert(passes_.end(), list.begin(), list.end());
  best_ = {start, graph_.makespan()};
  goal_ = goal();
}

FoundLists Annealer::run() {
  const int moves_at_heat = std::max(1, how_.moves / kCoolings);
  double heat = static_cast<double>(how_.heat);
  for (int i = 0; i < how_.moves && best_.step > how_.target; ++i) {
    if (i > 0 && i % moves_at_heat == 0) {
      heat *= kCooling;
      heat_ = static_cast<Ticks>(heat);
    }
    move_once();
  }
  return std::move(best_);
}

void Annealer::move_once() {
  const int pass = drawn_pass();
  const int rank = graph_.rank_of(pass);
  const std::vector<int>& list = graph_.lists()[static_cast<std::size_t>(rank)];
  const std::uint64_t drawn = random_.bits();
  const int direction = (drawn & 1U) != 0 ? 1 : -1;
  const int distance = 1 + static_cast<int>((drawn >> 8U) % kFarthest);
  const int last = static_cast<int>(list.size()) - 1;
  const int from = graph_.place_of(pass);
  const int to = std::clamp(from + direction * distance, 0, last);
  if (to == from) return;
  fill_moved(list, from, to);
  if (!graph_.change(rank, std::min(from, to), moved_)) return;
  const Ticks now = goal();
  const Ticks allowed = (heat_ >> 16U) * random_.logarithm();
  if (now - goal_ > allowed) {
    graph_.take_back();
    return;
  }
  goal_ = now;
  is_listed_ = false;
  const Ticks step = graph_.makespan();
  if (step < best_.step) best_ = {graph_.lists(), step};
}

/// A pass moves past others. Equal ones that it passes move on by one place among themselves, for
/// their micro-batches stay in order.
void Annealer::fill_moved(const std::vector<int>& list, int from, int to) {
  const auto begin = list.begin();
  moved_.assign(begin + std::min(from, to), begin + std::max(from, to) + 1);
  if (from < to)
    std::rotate(moved_.begin(), moved_.begin() + 1, moved_.end());
  else
    std::rotate(moved_.begin(), moved_.end() - 1, moved_.end());
  const int group = graph_.group_of(list[static_cast<std::size_t>(from)]);
  auto place = moved_.begin();
  for (int i = std::min(from, to); i <= std::max(from, to); ++i) {
    const int pass = list[static_cast<std::size_t>(i)];
    if (graph_.group_of(pass) != group) continue;
    while (graph_.group_of(*place) != group) ++place;
    *place++ = pass;
  }
}

int Annealer::drawn_pass() {
  const int count = static_cast<int>(passes_.size());
  if (random_.below(100) >= kPercentOfLongest)
    return passes_[static_cast<std::size_t>(random_.below(count))];
  if (!is_listed_) list_longest();
  return longest_[static_cast<std::size_t>(random_.below(static_cast<int>(longest_.size())))];
}

void Annealer::list_longest() {
  longest_.clear();
  const Ticks step = graph_.makespan();
  for (const int pass : passes_)
    if (graph_.through(pass) >= step) longest_.push_back(pass);
  is_listed_ = true;
}

}  // namespace
}  // namespace trireme::schedule
