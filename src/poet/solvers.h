// The solvers of solve(), and what they share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/poet/solve.h"

#include <optional>
#include <string>

namespace trireme::poet {

Result solve_keep_all(const graph::Problem& problem, const Freedom& freedom);

/// Lets go of the value whose next use is furthest, and gets it back when it is used: by reading or
/// by making it again. The best of three ways to choose between these: always the one, always the
/// other, the cheaper of the two.
Result solve_greedy(const graph::Problem& problem, const Freedom& freedom);
inline constexpr int kGreedySearches = 16;
/// Its schedule, within memory and deadline, by so many local searches; nothing if it finds none.
std::optional<graph::Schedule> greedy_schedule(const graph::Problem& problem,
                                               const Freedom& freedom, int searches);

/// Swaps and recomputes by the rules of Capuchin.
Result solve_capuchin(const graph::Problem& problem, const Freedom& freedom);

/// The graph as a chain of blocks, planned by POFO (blocks.h). Throws InputError for a graph that
/// has no such order.
Result solve_pofo(const graph::Problem& problem, const Freedom& freedom);

/// Tables over the parts of a chain (chain_tables.h). Throws InputError for a graph that is none.
Result solve_poet_chain(const graph::Problem& problem, const Freedom& freedom);
/// Its schedule; nothing if it finds none or the graph is no chain.
std::optional<graph::Schedule> chain_schedule(const graph::Problem& problem,
                                              const Freedom& freedom);

/// The best schedule of a mixed-integer program (model.h).
Result solve_poet(const graph::Problem& problem, const Freedom& freedom);

/// keep_all's solution, the best there is, if it fits.
std::optional<Solution> without_search(const graph::Problem& problem, const Freedom& freedom);
/// What `freedom` minimizes: joules or seconds.
double value_of(const graph::Outcome& outcome, Objective objective);
/// What a schedule is judged by: `value` is minimized, of equal ones `next`.
struct Merit {
  double value, next;
};
/// Values are equal up to the rounding of sums.
bool is_better(Merit one, Merit other);
bool is_in_time(const graph::Problem& problem, const graph::Outcome& outcome);

inline bool has_deadline(const graph::Problem& problem) {
  return problem.deadline < graph::Problem{}.deadline;
}
/// Every node once, with no waits, takes longer than the deadline: no schedule ends by it.
bool is_too_early(const graph::Problem& problem);

/// The least time in which `solve` has a schedule whatever the deadline; 0: it has none, or there
/// is no deadline.
Seconds least_time(Result (*solve)(const graph::Problem&, const Freedom&),
                   const graph::Problem& problem, const Freedom& freedom);
/// Why no schedule ends by the deadline, for people; `least` is the least time within the memory.
std::string words_of_deadline(const graph::Problem& problem, Seconds least);
/// Computing every node once, with no waits: no schedule is better.
double least_value(const graph::Problem& problem, Objective objective);

/// The node that needs the most memory with its inputs, and how much that is.
struct Widest {
  int node = 0;
  Bytes bytes{0};
};
Widest widest(const graph::Graph& graph);

}  // namespace trireme::poet
