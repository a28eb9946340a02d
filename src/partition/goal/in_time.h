// Deadlines: answers that come too late.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/goal.h"

namespace trireme::partition {

/// The answer, or where its step ends after the deadline an Infeasible with Reason::kDeadline, the
/// fastest step, and the least budget of the first rank in which a plan would be in time: all
/// budgets are tried with the same factor.
Answer in_time(const Question& question, Answer fastest, const Deadline& deadline);

}  // namespace trireme::partition
