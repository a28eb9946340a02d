// The least memory of stages, exactly in bytes: the least of (w-1) K + peak over programs.
//
// The recurrence of g with "least memory" for "least time". What a program keeps and what it needs
// to work pull against each other, so a stage has a front: points with more kept and less in all.
// From a point (kept, needs) of layers at+1.. comes one of layers s.. by
//     kept + holds,  max(needs + holds, what the decision needs),
// which never makes the difference of two points' sums (w-1) kept + needs larger than it was by
// more than it was: a point that keeps more and does not have the smaller sum can be left out.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tables/equal_layers.h"
#include "tables/interval_table.h"
#include "tables/least_column.h"

#include "trireme/chain/chain.h"
#include "trireme/program/action.h"
#include "trireme/solve/costs.h"

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace trireme::solve {

class LeanStages {
 public:
  /// O(L^3) once.
  LeanStages(const chain::Chain& chain, Freedom freedom);

  /// (in_flight - 1) K + peak, x[first-1] in both.
  Bytes least_memory(int first, int last, int in_flight);
  /// Time of the forwards that its program runs again.
  Seconds recompute(int first, int last, int in_flight);
  /// The program behind it.
  program::StageProgram leanest(int first, int last, int in_flight);

 private:
  /// Of one stage, beside x[first-1]; `time` of the forwards that are run again.
  struct Point {
    Slots kept, needs;
    double time;
  };
  using Front = std::vector<Point>;  ///< kept ascending, sum falling
  class Reader;

  const Point& least(int first, int last, int in_flight);
  /// Fronts of layers last, last-1, ... down to `first` at least.
  const std::vector<Front>& fronts(int first, int last, int in_flight);
  Front front(const std::vector<Front>& right, int s, int t, int in_flight) const;
  static Slots sum(const Point& point, int in_flight) {
    return (in_flight - 1) * point.kept + point.needs;
  }

  const chain::Chain& chain_;
  IntervalTable<LeastColumn> table_;
  EqualLayers equal_;
  std::map<std::pair<int, int>, std::vector<Front>> fronts_;  // by last layer and in flight
};

}  // namespace trireme::solve
