// Answers to questions in which nothing is open but cut and programs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

#include <string>

namespace trireme::partition {

/// The whole chain on one rank: a single-stage solver's program and what it costs there. Throws
/// InputError when there is no such solver or it does not take this chain.
Answer answer_alone(const Question& question, const std::string& solver);

/// Several stages: every policy with its best cut and with the equal one, the best of everything.
/// The question must be sound.
Answer plan_pipeline(const Question& question);

/// For a question with a group of more than one: the fastest of `plan`'s plans for groups. The
/// least budget of one that lacks memory may be a little more than what would do.
/// Two threads call `plan`.
Answer plan_in_groups(const Question& question, const Planner& plan);

}  // namespace trireme::partition
