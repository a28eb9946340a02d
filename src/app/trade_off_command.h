// `trireme plan --pareto`: energy against time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan_command.h"

#include <string>
#include <vector>

namespace trireme::app {

/// Prints or writes the trade-off of a question; returns the exit code. Throws InputError.
int trade_off(const PlanArguments& arguments, const partition::Question& question);

/// Prints or writes plans, from the fastest to that of least energy; returns the exit code.
int give_trade_off(const PlanArguments& arguments, const std::vector<plan::Plan>& plans,
                   const std::string& name);

}  // namespace trireme::app
