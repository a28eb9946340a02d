// An axis: one dimension of the search, which proposes decisions next to the best so far. Each is a
// file, a row of the table in axes.cpp, and a test.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "choices.h"
#include "log.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::partition {

/// A step within this factor of the ideal one is not searched further.
inline constexpr double kNearIdeal = 1.005;

/// State of the search that axes see.
struct Scene {
  const Question& question;  ///< the problem and its open decisions
  const Log& log;
  const Judged& best;
  int round = 0;   ///< earlier turns of the axis
  int misses = 0;  ///< proposals of this turn without an improvement
};

struct Axis {
  std::string_view name;
  /// Name of the alternative that does not use the axis.
  std::string_view without;
  bool (*is_open)(const Question& question);
  /// Decisions to simulate next, in parallel; empty when the axis is done. The search leaves out
  /// decisions that were simulated or skipped before.
  std::vector<Choices> (*moves)(const Scene& scene);
  /// Lower bound on the step of any plan for these choices, from the problem and the log. nullptr:
  /// no bound.
  Seconds (*bound)(const Problem& problem, const Log& log, const Choices& choices) = nullptr;
  bool (*is_used)(const Judged& judged);
  /// Most proposals per turn, for usual questions and for large ones (is_large).
  int most_looks, most_looks_at_large;
  /// Least gain of a turn, as a share of the step, for it to count, and why.
  double least_gain;
  std::string_view reason;
  /// Whether a step may get shorter than that of whole backwards and one chunk on every rank with
  /// unlimited memory, so that the axis has its turn there, too.
  bool beats_ideal = false;
};

/// A line search over choices that differ in one number.
struct Line {
  double low, high;  ///< ends, simulated first
  double finest;     ///< smallest gap to bisect
  std::function<Choices(double)> at;
  std::function<double(const Choices&)>
      asked;  ///< the number that choices ask for, on this line or not
  std::function<double(const Judged&)>
      position{};  ///< the number a plan came out with; empty: as asked
};
/// Proposes the ends, then repeatedly the middle of the wider of the two gaps next to the fastest.
/// After the first round only the gaps next to the best, as wide as other lines along the same
/// number have left them.
std::vector<Choices> along(const Line& line, const Scene& scene);

extern const Axis kOptimizerState, kStreamedWeights, kWeightsAtOnce, kGroups, kUpdates, kJoint,
    kSolvers, kIdleMemory, kSplitBackward, kCut, kChunks;

/// The choices with the most layers streamed whose copies alone take less than `step`.
Choices streaming_most(const Question& question, Choices choices, Seconds step);

/// Whether a plan with several chunks would hardly be faster with more memory: it is near the ideal
/// step, or keeps everything, and no order of its passes is faster.
bool has_no_use_for_memory(const Question& question, const Judged& judged);

/// By name, the steps of the named schedules that a plan with several chunks on every rank was
/// compared with, and its own where it has one of them.
std::map<std::string, Seconds> named_steps(const plan::Plan& plan);

/// All axes in the order of their turns: `in_turns` are repeated until none helps, with quick
/// solvers; then each of `at_last` has one turn.
struct Axes {
  std::vector<const Axis*> in_turns, at_last;

  /// Every axis once.
  std::vector<const Axis*> all() const;
};
const Axes& axes();

/// Whether any placement (weights, optimizer state, streamed layers at a time) or the group size is
/// open.
bool has_places(const Question& question);

}  // namespace trireme::partition
