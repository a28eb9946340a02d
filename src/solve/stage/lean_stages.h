// The least memory of stages, exactly in bytes: the least (w-1) K + peak over programs.
//
// The recurrence of g with "least memory" for "least time". A program can trade what it keeps
// against what it needs to work, so a stage has a Pareto front: points with more kept and less in
// all. A point (kept, needs) of layers at+1.. gives one of layers s.. by
//     kept + holds,  max(needs + holds, what the decision needs),
// which never reverses the order of two points whose kept and sum (w-1) kept + needs are ordered
// alike: a point that keeps more without a smaller sum can be left out.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tables/equal_layers.h"
#include "tables/interval_table.h"
#include "tables/least_column.h"

#include "trireme/chain/chain.h"
#include "trireme/chain/layer_range.h"
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
  Bytes least_memory(chain::LayerRange layers, int in_flight);
  /// Time of the forwards that its program recomputes.
  Seconds recompute(chain::LayerRange layers, int in_flight);
  /// The program that takes least_memory().
  program::StageProgram leanest(chain::LayerRange layers, int in_flight);

 private:
  /// A program of one stage, x[first-1] not counted; `time` is that of recomputed forwards.
  struct Point {
    Slots kept, needs;
    double time;
  };
  using Front = std::vector<Point>;  ///< kept ascending, sum falling
  class Reader;

  const Point& least(chain::LayerRange layers, int in_flight);
  /// Fronts of layers last, last-1, ... down to the first at least.
  const std::vector<Front>& fronts(chain::LayerRange layers, int in_flight);
  Front front(const std::vector<Front>& right, chain::LayerRange layers, int in_flight) const;
  static Slots sum(const Point& point, int in_flight) {
    return (in_flight - 1) * point.kept + point.needs;
  }

  const chain::Chain& chain_;
  IntervalTable<LeastColumn> table_;
  EqualLayers equal_;
  std::map<std::pair<int, int>, std::vector<Front>> fronts_;  // by last layer and in flight
};

}  // namespace trireme::solve
