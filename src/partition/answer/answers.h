// Plans for questions in which only cut and programs are open.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

#include <string>

namespace trireme::partition {

/// Plans the whole chain on one rank with a single-stage solver. Throws InputError when there is no
/// such solver or it does not take this chain.
Answer answer_alone(const Question& question, const std::string& solver);

/// Plans a pipeline: every policy with its best cut and with the equal cut, then takes the best.
/// The question must be sound.
Answer plan_pipeline(const Question& question);

/// Plans several chunks on every rank, or the schedule that the question names (Freedom::chunks),
/// with its alternatives. Throws InputError where the schedule does not exist for the question's
/// micro-batches or its chain is too short.
Answer plan_chunked(const Question& question);

/// A budget, from `least` up, that each rank that lacks memory could have instead, with which
/// plan_chunked() finds a plan for the schedule that the question names.
Bytes budget_that_fits(const Question& question, Bytes least);

/// Plans breadth-first groups (group > 1): the fastest plan for groups that `plan` makes. The least
/// budget of an infeasible answer may be slightly too large. Two threads call `plan`.
Answer plan_in_groups(const Question& question, const Planner& plan);

}  // namespace trireme::partition
