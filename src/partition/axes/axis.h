// One dimension of the search: what it proposes from where the search is. An axis is a file, a row
// of the table in axes.cpp, and a test.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "choices.h"
#include "log.h"

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace trireme::partition {

/// A step that takes no longer than that of one without waits is not worth a further look.
inline constexpr double kNearIdeal = 1.005;

/// Where the search is.
struct Scene {
  const Question& question;  ///< the problem, and what of it is open
  const Log& log;
  const Judged& best;
  int round = 0;   ///< how often the axis had its turn before
  int misses = 0;  ///< proposals of this turn that made nothing faster
};

struct Axis {
  std::string_view name;
  /// What an alternative is called whose choices do not use the axis.
  std::string_view without;
  bool (*is_open)(const Question& question);
  /// What to judge next, all at once; nothing where the axis is done. Choices that were judged or
  /// passed over are left out by the search.
  std::vector<Choices> (*moves)(const Scene& scene);
  /// No plan for these choices takes less, by the problem and what was judged. May be nullptr:
  /// nothing is known.
  Seconds (*bound)(const Problem& problem, const Log& log, const Choices& choices) = nullptr;
  bool (*is_used)(const Judged& judged);
  /// How often it proposes in a turn: of a usual question, and of a large one (is_large).
  int most_looks, most_looks_at_large;
  /// Least gain that a turn is worth, of a step, and why.
  double least_gain;
  std::string_view reason;
};

/// A straight line through the search: choices that differ in one number alone.
struct Line {
  double low, high;  ///< ends, the first to be judged
  double finest;     ///< least gap that is looked into
  std::function<Choices(double)> at;
  std::function<double(const Choices&)> asked;      ///< the number of choices, wherever they lie
  std::function<double(const Judged&)> position{};  ///< of a plan; empty: what was asked
};
/// The ends, then, again and again, the middle of the wider one of the two gaps beside the fastest.
/// After the first round only the gaps beside the best, as wide as other lines along the same
/// number have left them.
std::vector<Choices> along(const Line& line, const Scene& scene);

extern const Axis kOptimizerState, kStreamedWeights, kWeightsAtOnce, kGroups, kUpdates, kJoint,
    kSolvers, kIdleMemory, kSplitBackward, kCut;

/// The same choices with the most layers streamed whose copies alone take less than that step.
Choices streaming_most(const Question& question, Choices choices, Seconds step);

/// All axes in the order in which they have their turns: first those that are taken in turns until
/// none helps, by quick solvers; then each of the others once.
struct Axes {
  std::vector<const Axis*> in_turns, at_last;

  /// Each once.
  std::vector<const Axis*> all() const;
};
const Axes& axes();

/// Whether it is open where something is, or how many micro-batches pass together.
bool has_places(const Question& question);

}  // namespace trireme::partition
