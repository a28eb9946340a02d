// Schedules out of computations and copies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/graph/problem.h"
#include "trireme/graph/schedule.h"

namespace trireme::poet {

/// The schedule of these computations and copies (drops are ignored): what is made, read or copied
/// out for nothing is left out, and a value is dropped right after the last action that needs it.
graph::Schedule tidied(const graph::Graph& graph, const graph::Schedule& actions);

/// The same schedule with lanes beside compute in mind, as far as memory allows: copies in begin so
/// early that what is computed meanwhile takes as long, and values that are copied out stay until
/// their copy has ended. It may take more time all the same, where copies wait for each other.
graph::Schedule spread(const graph::Problem& problem, const graph::Schedule& schedule);

}  // namespace trireme::poet
