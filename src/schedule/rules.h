// Rules for list schedules, and better ones by changing them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "list_schedule.h"

#include <cstdint>
#include <vector>

namespace trireme::schedule {

/// A rule and what it leads to.
struct TriedRule {
  Rule rule;
  ListSchedule made;
};

/// Rules that differ in how fast micro-batches travel along the legs of the chain (as Qi et al.
/// 2024, Controllable Memory, choose the places of passes in a repeating block), how long they rest
/// at its turn, how many may be on the way, and when W's run; the fastest first. Where ranks that
/// follow a rule wait for each other, it is tried with fewer micro-batches on the way.
std::vector<TriedRule> usual_rules(const Instance& instance, ListScheduler& scheduler);

struct RuleChanges {
  int tries = 0;
  Ticks target = 0;  ///< where a step comes down to it, the search ends
  std::uint64_t seed = 1;
};

/// The fastest of the rules that simulated annealing comes to from one of them. A change moves the
/// planned times of a stretch of the chain, or lets more or fewer micro-batches be on the way
/// there, for all micro-batches alike: what a move of single passes in a finished order hardly ever
/// comes to.
TriedRule change_rule(const Instance& instance, ListScheduler& scheduler, const TriedRule& start,
                      const RuleChanges& how);

}  // namespace trireme::schedule
