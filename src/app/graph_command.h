// `trireme plan --graph` and `trireme simulate --graph`: schedules of a graph on one device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan_command.h"
#include "simulate_command.h"

namespace trireme::app {

/// Plans a graph within a memory and by a deadline; returns the exit code. Throws InputError.
int plan_graph(const PlanArguments& arguments);

/// Replays a schedule; returns the exit code. Throws InputError.
int simulate_graph(const SimulateArguments& arguments);

}  // namespace trireme::app
