// Sweep over memory budgets: step time of every solver at every budget.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <optional>
#include <string>
#include <vector>

namespace trireme::report {

/// Cost of a solver's plan.
struct SweepCost {
  Seconds step;
  Seconds recompute;  ///< per step
  Bytes peak;         ///< static bytes inside
  Bytes kept;         ///< per micro-batch
  Bytes moved;        ///< per micro-batch
};

/// One solver's answer to one budget.
struct SweepPoint {
  Bytes budget;  ///< static bytes inside
  std::string solver;
  std::optional<SweepCost> cost;  ///< nothing: infeasible
  Bytes least_budget;             ///< if infeasible, a budget that works
};

struct Sweep {
  std::string chain_name;
  int micro_batches = 1;
  Seconds ideal;                     ///< a step without recomputation
  std::vector<std::string> solvers;  ///< in display order
  std::vector<SweepPoint> points;    ///< budgets ascending
};

/// A header and one line per point; cells are empty where a solver does not fit.
std::string to_csv(const Sweep& sweep);
/// `trireme-sweep/1`.
std::string to_json(const Sweep& sweep);
/// Self-contained HTML: a plot of time against memory, and its table.
std::string sweep_page(const Sweep& sweep);

}  // namespace trireme::report
