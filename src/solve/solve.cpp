// The table of solvers, and solve(), which picks one by name.
//
// SPDX-License-Identifier: Apache-2.0
#include "trireme/solve/solve.h"

#include "baselines/baselines.h"
#include "copies/copies.h"
#include "tables/rotor.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>

namespace trireme::solve {
namespace {

/// A row of the table of solvers. To add one: declare its function in a header of its directory.
struct Solver {
  std::string_view name;
  Traits traits;
  /// `argument` is what followed the name, "" if nothing did; it throws InputError if it cannot
  /// read it.
  Result (*solve)(const Problem& problem, std::string_view argument);
};

// More slots cost much and gain nothing over 500.
constexpr int kMostSlots = 20'000;

const std::vector<Solver>& solvers();
/// Nothing for an unknown name.
const Solver* find(std::string_view name);
const Solver& solver_named(std::string_view name);
Problem complete(Problem problem);

}  // namespace

const std::vector<std::string>& solver_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const Solver& solver : solvers()) names.emplace_back(solver.name);
    return names;
  }();
  return kNames;
}

std::optional<Traits> traits_of(std::string_view solver) {
  const Solver* const found = find(solver.substr(0, solver.find(' ')));
  return found == nullptr ? std::nullopt : std::optional(found->traits);
}

Result solve(std::string_view solver, const Problem& asked) {
  const Problem problem = complete(asked);
  const std::size_t space = solver.find(' ');
  const std::string_view name = solver.substr(0, space);
  std::string_view argument = space == std::string_view::npos ? "" : solver.substr(space + 1);
  while (argument.starts_with(' ')) argument.remove_prefix(1);
  const Solver& found = solver_named(name);
  return found.traits.moves ? with_what_stays(problem, argument, found.solve)
                            : found.solve(problem, argument);
}

namespace {

const std::vector<Solver>& solvers() {
  using enum Growth;
  static const std::vector<Solver> kSolvers{
      {"keep_all", {kLength, false}, solve_keep_all},
      {"recompute_all", {kLength, false}, solve_recompute_all},
      {"periodic", {kLength, false}, solve_periodic},
      {"sqrt", {kLength, false}, solve_sqrt},
      {"capuchin", {kSquare, true}, solve_capuchin},
      {"revolve", {kSquare, false}, solve_revolve},
      {"min_peak", {kSquare, false}, solve_min_peak},
      {"rotor", {kTables, false}, solve_rotor},
      {"rotor_free", {kTables, false}, solve_rotor_free},
      {"offload", {kTables, true}, solve_offload},
      {"pofo", {kTables, true}, solve_pofo},
      {"exhaustive", {kSearch, false}, solve_exhaustive},
  };
  return kSolvers;
}

const Solver* find(std::string_view name) {
  const auto found = std::find_if(solvers().begin(), solvers().end(),
                                  [name](const Solver& solver) { return solver.name == name; });
  return found == solvers().end() ? nullptr : &*found;
}

const Solver& solver_named(std::string_view name) {
  if (const Solver* const found = find(name)) return *found;
  throw InputError(concat("no solver is called '", name, "'", did_you_mean(name, solver_names()),
                          "; there are ", join(solver_names(), ", ")));
}

Problem complete(Problem problem) {
  ensure(problem.chain != nullptr, "a problem has a chain");
  if (problem.last_layer == 0) problem.last_layer = problem.chain->length();
  ensure(problem.first_layer >= 1 && problem.first_layer <= problem.last_layer &&
             problem.last_layer <= problem.chain->length(),
         "a problem's layers lie in its chain");
  if (problem.slots < 0 || problem.slots > kMostSlots) {
    throw InputError(concat("slots: found ", problem.slots, ", expected 0 (exact) or 1..",
                            kMostSlots, ", e.g. 500"));
  }
  return problem;
}

}  // namespace
}  // namespace trireme::solve
