// A graph's schedules as a mixed-integer program (POET, ICML 2022, in a form with fewer columns).
//
// In step t node t is computed for the first time; before it earlier nodes are made again or read
// back, each in the order of the graph and only where it is useful (steps.h); what is read, and
// what is made of nothing, comes right before it is used. A value is copied out at most once, right
// after it was first made. A column says whether a value stays in memory between two places at
// which it may be used or come; memory is followed from place to place. docs/poet.md has the
// formulas.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "milp.h"

#include "trireme/graph/problem.h"
#include "trireme/graph/schedule.h"
#include "trireme/poet/solve.h"

#include <vector>

namespace trireme::poet {

enum class Aim { kEnergy, kTime, kMemory };

/// What may happen in a schedule, in its order.
struct Event {
  enum class Kind {
    kRead,     ///< copied in, if the column is 1
    kCompute,  ///< computed, if the column is 1 or kAlways
    kCopyOut,  ///< copied out, if the column is 1
    kLeave,    ///< from here on in memory only if the column is 1; not if it is kNever
  };
  static constexpr int kAlways = -1, kNever = -1;  ///< columns
  static constexpr int kBegin = -1;                ///< place: the begin of the step

  Kind kind{};
  int step = 0;
  int node = 0;
  int place = 0;  ///< the node that is made there
  int column = kAlways;
};

struct Model {
  Aim aim{};
  Milp milp;
  std::vector<Event> events;
  bool has_clocks = false;  ///< else copies beside compute cost no time that counts
  double unit = 1;          ///< joules, seconds or bytes that 1 of the objective stands for
};

/// What a program may do, and what for.
struct Question {
  Aim aim = Aim::kEnergy;
  bool may_recompute = true;
  bool may_copy = true;
  Seconds horizon{0};          ///< with lanes beside compute: no schedule of interest takes longer
  double excess = kUnbounded;  ///< joules or seconds: no schedule of interest costs more in
                               ///< addition to every node once
};

/// With as few integer columns as there can be: the best schedules of it are whole all the same.
Model model_of(const graph::Problem& problem, const Question& question);
/// The same with integer columns for what stays in memory.
void make_whole(Model& model);

/// The schedule of a solution: what is made or read for nothing is left out.
graph::Schedule schedule_of(const graph::Problem& problem, const Model& model,
                            const std::vector<double>& columns);

/// The columns of a schedule that says where values are made, read and copied out. What the program
/// cannot say is left out.
Terms start_of(const graph::Problem& problem, const Model& model, const graph::Schedule& schedule);

}  // namespace trireme::poet
