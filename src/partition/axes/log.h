// Everything that a search has judged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "choices.h"

#include "trireme/partition/problem.h"

#include <deque>
#include <functional>
#include <vector>

namespace trireme::partition {

/// What choices come to: a plan within the budgets, or why there is none.
struct Judged {
  Choices choices;
  Answer answer;
  /// Of a plan with split backwards: a rank lacks memory for some of what could be delayed.
  bool lacks_memory_to_delay = false;

  const plan::Plan* plan() const { return std::get_if<plan::Plan>(&answer); }
  Seconds step() const { return plan() == nullptr ? kAnyTime : plan()->step; }
};

/// Whether `a` is faster or, where neither is a plan, lacks less.
bool is_better(const Judged& a, const Judged& b);

/// Judged choices in the order in which they were proposed; references stay.
class Log {
 public:
  const Judged* find(const Choices& choices) const;
  /// The best of those that `is_one` holds of; nullptr where it holds of none.
  template <class Is>
  const Judged* best_where(Is&& is_one) const {
    const Judged* best = nullptr;
    for (const Judged& one : all_)
      if (is_one(one) && (best == nullptr || is_better(one, *best))) best = &one;
    return best;
  }
  /// Whether they were judged, or need not be since nothing could make them faster than the best.
  bool is_settled(const Choices& choices) const;
  const Judged& add(Judged judged);
  void pass_over(Choices choices) { passed_over_.push_back(std::move(choices)); }

  const std::deque<Judged>& all() const { return all_; }
  const std::deque<Choices>& passed_over() const { return passed_over_; }

 private:
  std::deque<Judged> all_;
  std::deque<Choices> passed_over_;
};

}  // namespace trireme::partition
