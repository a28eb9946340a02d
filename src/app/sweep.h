// `trireme plan --sweep N`: plans by every solver for N budgets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan_command.h"

#include "trireme/partition/planner.h"

namespace trireme::app {

/// Sweeps budgets from the least that any solver can use to what keep_all needs. Writes the
/// requested files, prints the table if there are none; returns the exit code.
int sweep(const PlanArguments& arguments, const partition::Question& question);

}  // namespace trireme::app
