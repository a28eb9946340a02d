// Solvers of graphs: the schedule of least energy or time within memory and deadline.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/graph/problem.h"
#include "trireme/graph/schedule.h"
#include "trireme/poet/time_limit.h"

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace trireme::poet {

enum class Objective { kTime, kEnergy };

/// What a solver may do, and how long it may take.
struct Freedom {
  Objective objective = Objective::kEnergy;
  bool may_recompute = true;
  bool may_copy = true;
  TimeLimit limit = Seconds(600);  ///< then the best so far is returned, with its bound
  double gap = 1e-6;               ///< relative gap at which a schedule counts as optimal
  std::optional<graph::Schedule> start = {};  ///< to improve on: no answer is worse
};

struct Solution {
  std::string solver;
  graph::Schedule schedule;
  graph::Outcome outcome;  ///< by replay
  bool is_optimal = false;
  double bound = 0;  ///< no schedule that the solver looks for is better: joules, or seconds
  Seconds took{0};   ///< for the solver
};

/// Why there is no schedule.
struct Infeasible {
  bool is_proven = true;  ///< false: none was found, by rules of thumb or within the time limit
  int node = 0;           ///< that needs the most memory, with its inputs
  Bytes least_memory;  ///< the least with which the solver has a schedule, whatever the deadline;
                       ///< where time ends before, the least that it found; 0 if it found none
  Seconds least_time{0};    ///< the least time of a schedule within this memory, if known; else 0
  Bytes memory_in_time{0};  ///< where the deadline is what fails: the least with which a schedule
                            ///< ends by it, as least_memory; 0: none does, or none was found
  std::string where;        ///< for people
};

using Result = std::variant<Solution, Infeasible>;

/// "keep_all", "greedy", "capuchin", "pofo", "poet_chain", "poet", and "poet_recompute" and
/// "poet_offload", which may do one of the two alone: in the order in which tables show them.
const std::vector<std::string>& solver_names();

/// Whether this build has HiGHS, which "poet" needs.
bool has_highs();

/// Every Solution is verified by replay. Throws InputError for an unknown name, for "poet" and
/// its like in a build without HiGHS, for "poet_chain" with a graph that is no chain, and for
/// "pofo" with one that does not begin with its input and forward nodes.
Result solve(std::string_view solver, const graph::Problem& problem, const Freedom& freedom);

}  // namespace trireme::poet
