// The stage problem of the joint planner: the fastest program of layers first..last on one rank of
// a pipeline, where several micro-batches are in flight at once.
//
// A stage's program splits at the pause between a micro-batch's forward and its backward; what is
// held there is its kept set of K bytes. It fits if
//   (in_flight - 1) K + max(peak of the forward part, peak of the backward part) <= memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"
#include "trireme/plan/plan.h"
#include "trireme/program/action.h"
#include "trireme/solve/solve.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <variant>

namespace trireme::solve {

struct StageProblem {
  int first_layer = 1, last_layer = 1;
  Bytes memory;       ///< the rank's budget without static bytes and channel buffers
  int in_flight = 1;  ///< 1: no other micro-batch is kept; the pause is still there (last stage:
                      ///< forward and backward follow each other)
  /// Kept items may leave between forward and backward; what moves in each direction within one
  /// period is at most rate x period.
  std::optional<HostLink> link;
  /// solve() reads the tables that all stages share and makes none with smaller slots for this one:
  /// the answer is up to a slot of every item worse, and comes a hundred times sooner.
  bool quick = false;
};

/// Times are per micro-batch, at speed 1. With copies, time() is the period: what one more
/// micro-batch takes when forwards and backwards follow each other with `in_flight` between them;
/// waits for copies are in `backward`. Kept is then what stays, and the peak that of the device
/// with all that is leaving and returning.
struct StageSolution {
  program::StageProgram program;
  Seconds forward, backward, recompute;
  Bytes kept;   ///< K, x[first-1] inside
  Bytes peak;   ///< (in_flight - 1) K + working peak, by replay; <= memory
  Bytes moved;  ///< to the offload tier per micro-batch

  Seconds time() const { return forward + backward; }
};

/// Solves many stages of one chain: tables are made once and shared by all stages, budgets and
/// counts in flight. Several threads may ask; they take turns at the tables.
class StageSolver {
 public:
  struct Options {
    Bytes largest_memory;  ///< no problem will have more
    /// Sizes are rounded up to largest_memory / slots or less (less with many in flight, where one
    /// micro-batch may keep little). 0: exact in bytes, where largest_memory is at most 20000.
    int slots = 500;
    bool input_may_leave = true;

    bool operator==(const Options&) const = default;
  };
  StageSolver(const chain::Chain& chain, const Options& options);
  ~StageSolver();

  /// Least forward + backward of such a stage without copies; infinity if nothing fits. Cheap after
  /// the first question about a (last_layer, slack); never above what solve() then reaches by more
  /// than rounding.
  Seconds least_time(const StageProblem& problem);

  /// The program behind it or a faster one, replayed; never slower than least_time(). An Infeasible
  /// says least_memory(): with copies less may do.
  std::variant<StageSolution, plan::Infeasible> solve(const StageProblem& problem);

  /// The least memory (without static bytes) with which layers first..last run at all with
  /// `in_flight` micro-batches and without copies: exactly what the leanest program of the solver's
  /// kind takes, by replay.
  Bytes least_memory(int first_layer, int last_layer, int in_flight);

  /// Bytes of memory that the tables hold by now.
  std::size_t size() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A stage's program, which copies nothing, with as much of what it keeps moved to the offload tier
/// between forward and backward as has to be, what is made first moving first, and other choices
/// tried from there. Nothing if it does not fit so either, or has nothing to move.
/// problem.link says what moving takes.
std::optional<StageSolution> with_kept_moved(const chain::Chain& chain, const StageProblem& problem,
                                             const program::StageProgram& program);

}  // namespace trireme::solve
