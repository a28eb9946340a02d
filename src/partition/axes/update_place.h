// When layers are updated whose trained weights come and go.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

namespace trireme::partition {

/// The question with updates among the passes where one stage may have them; else with all updates
/// at the end. The same where they are given.
Question with_updates_among_passes(Question question);

/// What `planner` says to that question or, where that is faster or alone has a plan, to the one
/// with all updates at the end, which it is asked at the same time.
Answer with_best_updates(const Question& question, const Planner& planner);

}  // namespace trireme::partition
