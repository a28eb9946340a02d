// `trireme plan --pareto`: energy against time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan_command.h"

namespace trireme::app {

/// Prints or writes the trade-off of a question; returns the exit code. Throws InputError.
int trade_off(const PlanArguments& arguments, const partition::Question& question);

}  // namespace trireme::app
