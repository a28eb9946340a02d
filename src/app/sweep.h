// `trireme plan --sweep N`: what every solver makes of N budgets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan_command.h"

#include "trireme/partition/planner.h"

namespace trireme::app {

/// Budgets from the least that any solver can use to what keep_all needs. Writes the files that
/// were asked for, prints the table where none was; returns the exit code.
int sweep(const PlanArguments& arguments, const partition::Question& question);

}  // namespace trireme::app
