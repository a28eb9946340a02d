// Cuts for energy: stages of nearly equal times, which all can go slower, where the fastest step
// has one long stage and others that wait for it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "values/cut.h"

#include "trireme/partition/problem.h"

namespace trireme::partition {

/// The cut of least energy per micro-batch if one passes every `period`, stage k on rank k: each
/// stage at the clock of least energy with which it is in time, idle for the rest of the period.
/// Exact for passes without recomputation and copies; budgets are not looked at. Empty where no cut
/// is in time.
std::optional<Cut> leanest_cut(const Problem& problem, Seconds period);

/// The problem with every rank slower by what it recomputes in this plan, of which leanest_cut()
/// knows nothing.
Problem with_recomputation_as_speed(Problem problem, const plan::Plan& plan);

/// Time of a micro-batch on the plan's slowest rank, at usual clocks.
Seconds period_of(const plan::Plan& plan);

}  // namespace trireme::partition
