// Where the optimiser's state is between updates: on the device, or in the outer tier, from where
// it comes in parts when a step ends and goes back.
//
// Bytes that leave make room for every micro-batch's passes and cost one copy each way per step.
// All ranks copy at the same time, so a step pays for the longest of them: within a given time,
// every rank may as well have away what it can copy in it. That time is the one number to choose.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

#include <optional>

namespace trireme::partition {

/// The longest that a rank's copies of state take one way.
Seconds copies_of(const Question& question, const plan::Plan& plan);

/// The plan with so much of the state back on the device as its ranks have room for.
plan::Plan with_room_used(const Question& question, plan::Plan plan);

/// What a step takes on ranks without budgets and copies of state: none with budgets is faster, by
/// these means. 0 where `plan` finds none.
Seconds unlimited_step(Question question, const Planner& plan);

/// For a question that nothing answers, with rates of copies: so much host memory, an amount of at
/// most `host` bytes on every rank with which `plan` was found to answer it. Nothing where `host`
/// bytes are not enough.
std::optional<plan::Advice> host_advice(const Question& question, Bytes host, const Planner& plan);
/// Ranks of which no copies are known get some, so that host memory can be advised; those that have
/// them one way keep what they have.
void assume_lanes(Question& question);
/// Whether such an amount has been found.
bool has_host_advice(const plan::Infeasible& infeasible);

/// For a question without optimizer_copies: `plan` is asked for plans with some, several times; the
/// fastest of them.
Answer with_best_copies(const Question& question, const Planner& plan);

}  // namespace trireme::partition
