// Mixed-integer linear programs, and the one function that solves them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/poet/solve.h"

#include <limits>
#include <utility>
#include <vector>

namespace trireme::poet {

inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

/// Columns and their factors.
using Terms = std::vector<std::pair<int, double>>;

/// Least `offset` + sum of cost x column. Columns are numbered as they are added; numbers should be
/// of the order of 1 to 10,000, since a solver's tolerances are absolute.
struct Milp {
  struct Column {
    double cost, lower, upper;
    bool is_integer;
  };

  double offset = 0;
  std::vector<Column> columns;
  std::vector<double> row_lower, row_upper;
  std::vector<int> row_start = {0};  ///< by row, into the next two; one more than there are rows
  std::vector<int> index;
  std::vector<double> value;

  int binary(double cost) { return column({cost, 0, 1, true}); }
  int column(const Column& column);
  /// lower <= terms <= upper
  void row(double lower, const Terms& terms, double upper);
  void at_least(double lower, const Terms& terms) { row(lower, terms, kUnbounded); }
  void at_most(const Terms& terms, double upper) { row(-kUnbounded, terms, upper); }
  int rows() const { return static_cast<int>(row_lower.size()); }
};

struct MilpLimits {
  TimeLimit time = Seconds(600);  ///< HiGHS looks at it between steps of its work, seconds apart
                                  ///< for programs of a million factors; it begins none without
                                  ///< time
  double gap = 1e-6;              ///< relative, of best and bound
};

struct MilpResult {
  bool is_infeasible = false;   ///< proven
  bool is_optimal = false;      ///< proven, within the gap
  std::vector<double> columns;  ///< of the best; empty if none was found
  double objective = 0;
  double bound = -kUnbounded;
};

/// In a build with HiGHS (has_highs()), with one thread, without output. `start`: columns with
/// their values to begin from, some or all of the integer ones; what cannot be completed to a
/// solution is ignored.
MilpResult solve_milp(const Milp& milp, const Terms& start, const MilpLimits& limits);

}  // namespace trireme::poet
