// SPDX-License-Identifier: Apache-2.0
#include "chain_front.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace trireme::poet {
namespace {

/// Prices that differ by less, relative, are the same: sums in another order.
constexpr double kSame = 1e-12;

bool in_order(const Label& a, const Label& b);
Front near_cheapest(const Screen& screen, const Front& sorted);
bool is_beaten(const Screen& screen, const Front& kept, const Label& label);
void thin(std::size_t most, Front& front);
void keep_nearest(std::size_t most, Front& front);

}  // namespace

Cost& Cost::operator+=(const Cost& other) {
  value += other.value;
  time += other.time;
  outside += other.outside;
  return *this;
}

void Collection::begin() {
  at_ = 0;
  least_ = std::numeric_limits<double>::infinity();
}

bool Collection::wants(std::int64_t memory, double price) {
  if (is_wide()) return true;
  while (at_ < kept_.size() && kept_[at_].memory <= memory) least_ = kept_[at_++].price;
  if (price >= least_ * (1 - kSame)) return false;
  least_ = price;
  return true;
}

// Both are in order; what is no cheaper than something with less memory falls out.
void Collection::end() {
  if (is_wide() || fresh_.empty()) return;
  merged_.clear();
  auto fresh = fresh_.cbegin();
  const auto take = [&](const Label& label) {
    if (merged_.empty() || label.price < merged_.back().price * (1 - kSame)) {
      merged_.push_back(label);
    }
  };
  for (const Label& label : kept_) {
    while (fresh != fresh_.cend() && in_order(*fresh, label)) take(*fresh++);
    take(label);
  }
  std::for_each(fresh, fresh_.cend(), take);
  kept_.swap(merged_);
  fresh_.clear();
}

Front Collection::take() {
  if (is_wide()) screen_wide();
  if (kept_.size() > screen_.most) {
    is_wide() ? keep_nearest(screen_.most, kept_) : thin(screen_.most, kept_);
  }
  Front front(kept_.begin(), kept_.end());
  kept_.clear();
  return front;
}

void Collection::screen_wide() {
  std::sort(fresh_.begin(), fresh_.end(), in_order);
  kept_ = near_cheapest(screen_, fresh_);
  fresh_.clear();
}

namespace {

bool in_order(const Label& a, const Label& b) {
  return std::tie(a.memory, a.price) < std::tie(b.memory, b.price);
}

Front near_cheapest(const Screen& screen, const Front& sorted) {
  Front kept;
  double least = std::numeric_limits<double>::infinity();
  for (const Label& label : sorted) {
    least = std::min(least, label.price);
    if (label.price > least + screen.excess || is_beaten(screen, kept, label)) continue;
    kept.push_back(label);
  }
  return kept;
}

// By one with no more memory.
bool is_beaten(const Screen& screen, const Front& kept, const Label& label) {
  const auto no_more = [](double a, double b) { return a <= b * (1 + kSame); };
  return std::any_of(kept.begin(), kept.end(), [&](const Label& other) {
    return no_more(other.cost.value, label.cost.value) &&
           no_more(other.cost.time, label.cost.time) &&
           (!screen.counts_outside || no_more(other.cost.outside, label.cost.outside));
  });
}

// Evenly: the one that needs least and the cheapest one remain.
void thin(std::size_t most, Front& front) {
  const std::size_t last = front.size() - 1;
  for (std::size_t k = 0; k < most; ++k) front[k] = front[k * last / (most - 1)];
  front.resize(most);
}

// The cheapest ones of their memory, and of the others those that are nearly as cheap.
void keep_nearest(std::size_t most, Front& front) {
  std::vector<std::pair<double, std::size_t>> order;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < front.size(); ++k) {
    order.emplace_back(std::max(0.0, front[k].price - least), k);
    least = std::min(least, front[k].price);
  }
  order.front().first = 0;
  std::sort(order.begin(), order.end());
  order.resize(most);
  std::vector<std::size_t> rests;
  for (const auto& [excess, k] : order) rests.push_back(k);
  std::sort(rests.begin(), rests.end());
  Front kept;
  for (const std::size_t k : rests) kept.push_back(front[k]);
  front = std::move(kept);
}

}  // namespace
}  // namespace trireme::poet
