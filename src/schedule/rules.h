// Rules for list schedules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "list_schedule.h"

#include <optional>
#include <vector>

namespace trireme::schedule {

/// Rules that differ in how fast micro-batches travel along the legs of the chain (as Qi et al.
/// 2024, Controllable Memory, choose the places of passes in a repeating block), how long they rest
/// at its turns, how many may be on the way, and when W's run.
std::vector<Rule> rules(const Instance& instance);

/// The list schedule of a rule; where its ranks wait for each other, with fewer micro-batches in
/// flight.
std::optional<Lists> flexible_list_schedule(const Instance& instance, Rule rule);

}  // namespace trireme::schedule
