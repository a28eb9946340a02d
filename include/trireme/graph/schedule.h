// Schedules of a graph, and what they cost: computations, copies, drops in order.
//
// A node's output is in memory from its computation (or the start of its copy in) until it is
// dropped, and in the offload tier from its copy out to the end of the step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/graph/problem.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::graph {

enum class Op {
  kCompute,  ///< its inputs are in memory; its output is afterwards (and during it)
  kCopyOut,  ///< its output, in memory, is copied to the offload tier (page-out)
  kCopyIn,   ///< its output is copied back: takes memory from when the copy starts (page-in)
  kDrop,     ///< its output's memory is freed
};

struct Action {
  Op op{};
  int node = 0;

  bool operator==(const Action&) const = default;
};

/// A step: every node is computed at least once, first computations in the graph's order.
using Schedule = std::vector<Action>;

/// Why a schedule cannot run.
struct Fault {
  std::size_t index = 0;  ///< of the action; the schedule's length if it ends too early
  std::string reason;     ///< "input conv1 is not in memory"
};

/// What a schedule costs.
struct Outcome {
  Seconds time;       ///< of the step
  Seconds busy;       ///< part of it in which something is computed
  Seconds recompute;  ///< part of busy: computations beyond the first of each node
  Joules compute, recompute_energy, copies, idle;  ///< recompute_energy is part of compute
  Bytes peak;                                      ///< most bytes held at once
  std::size_t peak_at = 0;                         ///< action at which they are first held
  Bytes offloaded;                                 ///< copied out

  Joules energy() const { return compute + copies + idle; }
};

/// When an action runs.
struct Span {
  Seconds start, end;
};

struct Replayed {
  std::optional<Fault> fault;  ///< with one, the rest is meaningless
  Outcome outcome;
  std::vector<Span> spans;  ///< by action; a drop takes no time
  std::vector<Bytes> held;  ///< by action, bytes in memory while it runs
};

/// Runs a schedule. Memory is counted in the schedule's order, a node's transient bytes while it is
/// computed: an action that would exceed `problem.memory` or the capacity of the offload tier is a
/// fault, as is a computation without an input in memory, a value computed or copied in that is in
/// memory already, a copy out of what is out already, a copy in of what is not. What is still in
/// memory at the end is no fault. kInTurn: actions run one after another. kBeside: a copy starts
/// when compute has come to its place in the schedule and its lane is free, a copy in also not
/// before the copy out has ended; compute waits for the copy in of an input, and at a drop for the
/// value's copies to end. The step ends when all has ended. The deadline is not checked.
Replayed replay(const Problem& problem, const Schedule& schedule);

/// Computes every node once, dropping each value after its last use: the fastest schedule, with the
/// most memory.
Schedule keep_all(const Graph& graph);

/// One action per line, with the node's name as a comment: "copy_out 3  # conv2"; the words are
/// compute, copy_out, copy_in, drop.
std::string to_text(const Schedule& schedule, const Graph& graph);

/// One line of words for a device: "c0-2 o1 c3 i1 c4". A letter stands for an action (c compute, o
/// copy_out, i copy_in, d drop), "c0-2" for c0 c1 c2. Left out is the drop of a value right after
/// the last action that needs it, before it is computed or copied in again; where several end with
/// one action, in ascending order. A value that is not dropped there has a word "k" (kept) at that
/// place.
std::string to_compact(const Schedule& schedule, const Graph& graph);

/// Most actions that a text may say: a short one should not exhaust memory.
inline constexpr std::size_t kMaxActions = 1'000'000;

/// Reads both forms, to the very schedule that was written, whether it can run or not. Text after
/// "#" in a line is a comment. Throws InputError with the line or the word, and what was expected:
/// for a node that the graph does not have, a "k" of a value that would not be dropped there, and
/// more than kMaxActions.
Schedule parse_schedule(std::string_view text, const Graph& graph);

}  // namespace trireme::graph
