// Time against memory: what every solver makes of every budget.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <optional>
#include <string>
#include <vector>

namespace trireme::report {

/// What a solver's plan costs.
struct SweepCost {
  Seconds step;       ///< of one step
  Seconds recompute;  ///< of one step
  Bytes peak;         ///< static bytes inside
  Bytes kept;         ///< per micro-batch
  Bytes moved;        ///< per micro-batch
};

/// One solver's answer to one budget.
struct SweepPoint {
  Bytes budget;  ///< static bytes inside
  std::string solver;
  std::optional<SweepCost> cost;  ///< nothing: infeasible
  Bytes least_budget;             ///< if infeasible, the smallest budget that works
};

struct Sweep {
  std::string chain_name;
  int micro_batches = 1;
  Seconds ideal;                     ///< a step without recomputation
  std::vector<std::string> solvers;  ///< in the order in which they are shown
  std::vector<SweepPoint> points;    ///< budgets ascending
};

/// One line per point with a head; a solver that does not fit has empty cells.
std::string to_csv(const Sweep& sweep);
/// `trireme-sweep/1`.
std::string to_json(const Sweep& sweep);
/// A picture (memory against time) and the table behind it, HTML that needs nothing else.
std::string sweep_page(const Sweep& sweep);

}  // namespace trireme::report
