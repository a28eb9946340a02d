// The search over everything that a question leaves open: choices are judged, axes propose others,
// until none makes a step shorter.
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
  /// `propose` makes a cut and programs for questions of which nothing else is open, micro-batches
  /// one by one; several threads call it. The question must outlive the search.
  Search(const Question& question, Planner propose)
      : question_(question), propose_(std::move(propose)) {}
  Search(const Question&& question, Planner propose) = delete;

  /// The best plan, with alternatives; or why there is none, with advice. The same whatever the
  /// number of threads. To be called once.
  Answer best();
  /// What the answer rests on.
  Reasons reasons() const;

 private:
  /// Judges the plainest choices by that solver and, where they leave something to gain, those with
  /// everything offloaded that may be. These are the corners to climb from.
  std::vector<Choices> corners(const std::string& solver);
  /// From the best corner, and from the others that are nearly as fast.
  void climb_from(const std::vector<Choices>& corners);
  /// Of a long chain, whether the same choices with updates among the passes are faster: a climb
  /// from there has gone the same ways.
  bool has_faster_twin(const Judged& one) const;
  /// From the best so far as far as the axes that are taken in turns lead.
  void climb();
  /// One turn of an axis. Whether it found better choices.
  bool improve(const Axis& axis);

  /// Judges choices that are not in the log and that might be faster than the best, several at
  /// once.
  void judge(std::vector<Choices> choices);
  Judged judged(const Choices& choices) const;
  /// What `propose` says, where micro-batches pass in groups of those.
  Answer proposed_in_groups(const Question& asked) const;
  /// The plan with whole backwards, within the budgets also where programs were made for others.
  Answer proposed(const Choices& choices) const;
  /// No plan for these choices takes less.
  Seconds bound(const Choices& choices) const;
  /// Whether nothing but split backwards can make a step much shorter.
  bool is_near_ideal();
  /// A step of that solver's plan without budgets and copies.
  Seconds unlimited_step(const std::string& solver);

  /// The fastest of the judged choices that do without an axis; nullptr where all use it.
  const Judged* without(const Axis& axis) const;
  plan::Plan with_alternatives() const;
  plan::Infeasible with_advice() const;

  const Question& question_;
  Planner propose_;
  Log log_;
  const Judged* best_ = nullptr;     ///< of this climb
  const Judged* fastest_ = nullptr;  ///< of all
  std::vector<const Axis*> closed_;  ///< axes that this climb does without
  std::map<const Axis*, int> turns_ = {};
  std::map<std::string, Seconds> unlimited_ = {};
};

}  // namespace trireme::partition
