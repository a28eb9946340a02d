// Solvers of graphs: the schedule of least energy or time within memory and deadline.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/graph/problem.h"
#include "trireme/graph/schedule.h"

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace trireme::graph {

enum class Objective { kTime, kEnergy };

/// What a solver may do, and how long it may take.
struct Freedom {
  Objective objective = Objective::kEnergy;
  bool may_recompute = true;
  bool may_copy = true;
  Seconds limit{
      600};           ///< of the solver's own time; then the best so far is returned with its bound
  double gap = 1e-6;  ///< relative gap at which a schedule counts as optimal
  std::optional<Schedule> start = {};  ///< a schedule to improve on
};

struct Solution {
  std::string solver;
  Schedule schedule;
  Outcome outcome;  ///< by replay
  bool is_optimal = false;
  double bound = 0;  ///< no schedule is better than this: joules, or seconds
  Seconds took{0};   ///< of the solver
};

/// Why there is no schedule.
struct Infeasible {
  bool is_proven = true;  ///< false: none was found within the time limit
  int node = 0;           ///< that needs the most memory, or where it first does not fit
  Bytes least_memory;     ///< the least memory with which a schedule exists, any deadline
  Seconds least_time{0};  ///< the least time of a schedule within this memory, if known; else 0
  std::string where;      ///< for people
};

using Result = std::variant<Solution, Infeasible>;

/// "poet", "keep_all", ...; in the order in which tables show them.
const std::vector<std::string>& solver_names();
/// Every Solution is verified by replay. Throws InputError for an unknown name.
Result solve(std::string_view solver, const Problem& problem, const Freedom& freedom);

}  // namespace trireme::graph
