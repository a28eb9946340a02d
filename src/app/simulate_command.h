// `trireme simulate`: simulates a plan and reports times and memory rank by rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "planned.h"

#include <string>

namespace trireme::app {

struct SimulateArguments {
  PlanFiles files;
  std::string trace, report;
  std::string graph;  ///< instead of a chain
  bool json = false;
};

/// Returns the exit code; throws InputError.
int simulate_plan(const SimulateArguments& arguments);

}  // namespace trireme::app
