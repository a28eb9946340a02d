// When layers are updated whose trained weights come and go.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

namespace trireme::partition {

/// The question with updates among the passes where one stage may have them; else with all updates
/// at the end. The same where they are given.
Question with_updates_among_passes(Question question);

/// Of optimiser state on its way, what a rank holds that updates layers among passes.
Bytes update_window(const Question& question);
/// The same of a rank with these runs of layers: nothing where it has no such layers, or no state
/// away.
Bytes update_window(const Question& question, int rank, const LayerRuns& runs);

/// What `planner` says to that question or, where that is faster or alone has a plan, to the one
/// with all updates at the end, which it is asked at the same time.
Answer with_best_updates(const Question& question, const Planner& planner);

}  // namespace trireme::partition
