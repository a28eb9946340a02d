// What a plan of a graph is and costs, as text, JSON and a page.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/graph/plan.h"
#include "trireme/graph/problem.h"
#include "trireme/graph/schedule.h"

#include <string>

namespace trireme::report {

/// A plan, the problem that it was made for or is simulated on, and its replay there.
struct GraphRun {
  const graph::Problem& problem;
  const graph::Plan& plan;
  const graph::Replayed& replayed;  ///< without a fault
};

/// Time, energy, memory, copies, and the schedule by nodes.
std::string graph_text(const GraphRun& run);
/// `trireme-graph-simulation/1`.
std::string graph_json(const GraphRun& run);
/// Self-contained HTML: memory and lanes over the step, and a table of nodes.
std::string graph_page(const GraphRun& run);

}  // namespace trireme::report
