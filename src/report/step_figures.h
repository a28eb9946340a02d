// Figures of a step, as cards and tables.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "timeline.h"

#include "trireme/core/units.h"
#include "trireme/plan/plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::report {

/// A plan's step, predicted and measured, with the limits of every rank.
struct StepFigures {
  const plan::Plan& plan;
  Timelines timelines;
  std::vector<Limits> limits;  ///< by rank
  std::int64_t number = 0,
               steps = 0;  ///< number of the measured step, and of all steps; 0: unknown
  Seconds median = {};     ///< median step time of the run
};

/// Limits of every rank: the budget in `budgets`, or else the plan's, and the plan's static bytes.
std::vector<Limits> limits_of(const plan::Plan& plan, const Timelines& timelines,
                              const std::vector<Bytes>& budgets);

/// A rank's peak relative to its budget, or to the largest peak where it has none: for sorting.
double fullness(const StepFigures& step, int rank);

/// Cards with the main figures: step, bubble, recompute, peak, copies; measured with the prediction
/// below, or the prediction alone.
std::string cards(const StepFigures& step);

/// A header and, per rank, a predicted and a measured row.
std::vector<std::vector<std::string>> rank_rows(const StepFigures& step);

/// Whether some stage offloads optimizer state or streams weights.
bool has_offloaded(const plan::Plan& plan);

/// A header and a row per stage with the plan's figures.
std::vector<std::vector<std::string>> stage_rows(const plan::Plan& plan);

}  // namespace trireme::report
