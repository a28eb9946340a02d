// The search over all open decisions: choices are simulated and axes propose others, until none
// makes a step shorter.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "axes/axis.h"

#include "trireme/partition/reasons.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::partition {

class Search {
 public:
  /// `propose` makes cut and programs for questions with nothing else open and micro-batches one by
  /// one; several threads call it. The question must outlive the search.
  Search(const Question& question, Planner propose)
      : question_(question), propose_(std::move(propose)) {}
  Search(const Question&& question, Planner propose) = delete;

  /// The best plan with alternatives, or why there is none, with advice. Does not depend on the
  /// number of threads. To be called once.
  Answer best();
  /// Reasons for the answer.
  Reasons reasons() const;
  /// All plans that were simulated.
  std::vector<plan::Plan> plans() const;

 private:
  /// Simulates the plainest choices with this solver and, where they leave something to gain, those
  /// with everything offloaded that may be: the corners to climb from.
  std::vector<Choices> corners(const std::string& solver);
  /// Climbs from the best corner, and from the others that are nearly as fast.
  void climb_from(const std::vector<Choices>& corners);
  /// For a long chain, whether the same choices with an overlapped optimizer step are faster: a
  /// climb from there has covered these.
  bool has_faster_twin(const Judged& one) const;
  /// Climbs from the best so far by the axes that take turns.
  void climb();
  /// One turn of an axis. Returns whether it found better choices.
  bool improve(const Axis& axis);
  /// Goes back to `before` unless the best is faster by what the axis has to gain; returns whether
  /// it is.
  bool keep_gain(const Axis& axis, const Judged& before);
  /// Named schedules that are worth a search by themselves: all with several chunks for a small
  /// question, those near the fastest so far for a larger one, gpipe where weights are streamed.
  std::vector<std::string> schedules_to_search() const;
  /// Searches these as if each were asked for: leaving the schedule open should not make the step
  /// longer.
  void search_named();

  /// Simulates, in parallel, the choices that are not in the log and whose lower bound is below the
  /// best step.
  void judge(std::vector<Choices> choices);
  Judged judged(const Choices& choices) const;
  /// The answer of `propose`, for breadth-first groups through plan_in_groups().
  Answer proposed_in_groups(const Question& asked) const;
  /// The plan with whole backwards, within the budgets even where programs were made for more
  /// memory.
  Answer proposed(const Choices& choices) const;
  /// Lower bound on the step of any plan for these choices.
  Seconds bound(const Choices& choices) const;
  /// Whether only split backwards can still make the step much shorter.
  bool is_near_ideal();
  /// Step of this solver's plan without budgets and copies, with these chunks (Freedom::chunks).
  Seconds unlimited_step(const std::string& solver, const std::string& chunks);

  /// The fastest simulated choices without the axis; nullptr where all use it. Faster ones than the
  /// best, by less than another axis has to gain, were not taken.
  const Judged* without(const Axis& axis) const;
  plan::Plan with_alternatives() const;
  plan::Infeasible with_advice() const;

  const Question& question_;
  Planner propose_;
  Log log_;
  const Judged* best_ = nullptr;     ///< best of this climb
  const Judged* fastest_ = nullptr;  ///< best of all climbs
  std::vector<const Axis*> closed_;  ///< axes that this climb must not use
  std::map<const Axis*, int> turns_ = {};
  std::map<std::pair<std::string, std::string>, Seconds> unlimited_ = {};
};

}  // namespace trireme::partition
