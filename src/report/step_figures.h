// The figures of a page about one step, as cards and tables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "timeline.h"

#include "trireme/core/units.h"
#include "trireme/plan/plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::report {

/// A plan's step with what is known of it, and what every rank may hold.
struct StepFigures {
  const plan::Plan& plan;
  Timelines timelines;
  std::vector<Limits> limits;          ///< by rank
  std::int64_t number = 0, steps = 0;  ///< of the measured step, among how many; 0: not told
  Seconds median = {};                 ///< time of a step of the run
};

/// Of every rank the budget in `budgets`, or the plan's where that names none, and the plan's
/// static bytes.
std::vector<Limits> limits_of(const plan::Plan& plan, const Timelines& timelines,
                              const std::vector<Bytes>& budgets);

/// How near a rank is to its budget, or to the largest peak where it has none: for sorting.
double fullness(const StepFigures& step, int rank);

/// What a reader wants first: step, bubble, recompute, peak, copies; measured with the prediction
/// below, or the prediction alone.
std::string cards(const StepFigures& step);

/// A head and, per rank, a row for what was predicted and one for what was measured.
std::vector<std::vector<std::string>> rank_rows(const StepFigures& step);

/// Whether some stage has state or streamed weights in the offload tier between their uses.
bool has_away(const plan::Plan& plan);

/// A head and a row per stage: what the plan gives it.
std::vector<std::vector<std::string>> stage_rows(const plan::Plan& plan);

}  // namespace trireme::report
