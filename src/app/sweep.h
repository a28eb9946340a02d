// `trireme plan --sweep N`: what every solver makes of N budgets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "one_rank.h"
#include "plan_command.h"

namespace trireme::app {

/// Budgets from the least that any solver can use to what keep_all needs. Writes the files that
/// were asked for, prints the table where none was; returns the exit code.
int sweep(const PlanArguments& arguments, const OneRank& question);

}  // namespace trireme::app
