// Log of the decisions that a search has simulated or skipped.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "choices.h"

#include "trireme/partition/problem.h"

#include <deque>
#include <functional>
#include <vector>

namespace trireme::partition {

/// Result for choices: a plan within the budgets, or why there is none.
struct Judged {
  Choices choices;
  Answer answer;
  /// With split backwards: some rank lacks memory for all weight gradients that could be deferred.
  bool lacks_memory_to_delay = false;

  const plan::Plan* plan() const { return std::get_if<plan::Plan>(&answer); }
  Seconds step() const { return plan() == nullptr ? kAnyTime : plan()->step; }
};

/// Whether `a` is faster or, where neither is a plan, needs a smaller budget.
bool is_better(const Judged& a, const Judged& b);

/// Simulated choices in the order they were proposed; references stay valid.
class Log {
 public:
  const Judged* find(const Choices& choices) const;
  /// The best entry with `is_one`; nullptr where there is none.
  template <class Is>
  const Judged* best_where(Is&& is_one) const {
    const Judged* best = nullptr;
    for (const Judged& one : all_)
      if (is_one(one) && (best == nullptr || is_better(one, *best))) best = &one;
    return best;
  }
  /// Whether the choices were simulated, or skipped because of their lower bound.
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
