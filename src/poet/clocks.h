// Time in a program, with lanes beside compute: one clock for the processor, one per lane.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "scale.h"

#include <vector>

namespace trireme::poet {

/// Follows a schedule's events, as replay() does: every clock is at least what it has waited for.
class Clocks {
 public:
  Clocks(const graph::Problem& problem, const Question& question, const Scale& scale, Milp& milp);

  /// A moment between two computations.
  void pause();
  /// The node's copy in is given to its lane, if `column` is 1.
  void read(int node, int column);
  /// Computes once what is read of `inputs` is there.
  void compute(int node, int column, const std::vector<int>& inputs);
  void copy_out(int node, int column);
  /// The value leaves unless `stays` is 1, once its copy out has ended.
  void leave(int node, int stays);
  /// The step ends when all has ended.
  void end();

 private:
  struct Value {
    int ready = -1;           ///< clock: when its copies in so far have ended
    int out = -1, left = -1;  ///< whether it is copied out; clock: when that has ended
  };

  /// What a second costs.
  double price() const;
  int clock() { return milp_.column({0, 0, horizon_, false}); }
  /// later >= earlier + duration x column
  void after(int later, int earlier, double duration = 0, int column = -1);
  /// later >= earlier, if `condition` is 1
  void after_if(int later, int earlier, int condition);
  Value& value(int node) { return values_[static_cast<std::size_t>(node)]; }

  const graph::Problem& problem_;
  const Question& question_;
  const Scale& scale_;
  Milp& milp_;
  double horizon_;
  std::vector<Value> values_;
  int now_, in_free_, out_free_;  ///< clocks
};

}  // namespace trireme::poet
