// Memory that a plan with streamed weights leaves idle. To its planner a rank holds at any time the
// most that streamed weights ever take; the most that values take may come at another time, and the
// simulator, which counts both action by action, finds a lower peak.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

namespace trireme::partition {

/// The answer, or a faster plan within the same budgets: `planner`, which takes questions with all
/// places given, is asked for plans for as much more memory as the best so far leaves idle.
Answer with_idle_memory_used(const Question& question, Answer answer, const Planner& planner);

}  // namespace trireme::partition
