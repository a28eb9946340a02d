// The stage problem of the joint planner: the fastest program of layers first..last on one rank of
// a pipeline, where several micro-batches are in flight at once.
//
// A stage's program splits at the pause between a micro-batch's forward and its backward; what is
// held there is its kept set of K bytes. It fits if
//   (in_flight - 1) K + max(peak of the forward part, peak of the backward part) <= memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/chain/layer_range.h"
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
  chain::LayerRange layers;
  Bytes memory;       ///< the rank's budget without static bytes and channel buffers
  int in_flight = 1;  ///< 1: no other micro-batch is kept; the pause is still there (last stage:
                      ///< forward and backward follow each other)
  /// Kept items may be offloaded between forward and backward; each direction copies at most rate x
  /// period bytes within one period.
  std::optional<HostLink> link;
  /// solve() uses the tables that all stages share and makes none with smaller slots for this one:
  /// the answer is worse by up to a slot per item, and a hundred times faster.
  bool quick = false;
};

/// Times are per micro-batch, at speed 1. With copies, time() is the period: what one more
/// micro-batch takes when forwards and backwards alternate with `in_flight` micro-batches in
/// flight; waits for copies are in `backward`. `kept` is then what stays on the device, and `peak`
/// counts all that is being copied.
struct StageSolution {
  program::StageProgram program;
  Seconds forward, backward, recompute;
  Bytes kept;   ///< K, x[first-1] included
  Bytes peak;   ///< (in_flight - 1) K + working peak, by replay; <= memory
  Bytes moved;  ///< bytes offloaded per micro-batch

  Seconds time() const { return forward + backward; }
};

/// Solves many stages of one chain: tables are made once and shared by all stages, budgets and
/// numbers in flight. Thread-safe; threads take turns at the tables.
class StageSolver {
 public:
  struct Options {
    Bytes largest_memory;  ///< upper bound on every problem's memory
    /// Sizes are rounded up to largest_memory / slots or less (less with many in flight, where one
    /// micro-batch may keep little). 0: exact in bytes, where largest_memory is at most 20000.
    int slots = 500;
    bool input_may_leave = true;

    bool operator==(const Options&) const = default;
  };
  StageSolver(const chain::Chain& chain, const Options& options);
  ~StageSolver();

  /// Least forward + backward time of the stage without copies; infinity if nothing fits. Cheap
  /// after the first call for a (last_layer, slack); exceeds what solve() then reaches by rounding
  /// at most.
  Seconds least_time(const StageProblem& problem);

  /// The program of least_time() or a faster one, verified by replay; never slower than
  /// least_time(). An Infeasible states least_memory(); with copies less may be enough.
  std::variant<StageSolution, plan::Infeasible> solve(const StageProblem& problem);

  /// The least memory (without static bytes) with which these layers run at all with
  /// `in_flight` micro-batches and without copies: exactly what the leanest program of the solver's
  /// kind takes, by replay.
  Bytes least_memory(chain::LayerRange layers, int in_flight);

  /// Bytes of memory that the tables take now.
  std::size_t size() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Adds activation offload to a stage's program without copies: as many of its kept items as
/// necessary are in the offload tier between forward and backward, earliest made first, and other
/// choices are tried from there. Nothing if it still does not fit, or keeps nothing to offload.
/// problem.link has the rates and the capacity.
std::optional<StageSolution> with_kept_moved(const chain::Chain& chain, const StageProblem& problem,
                                             const program::StageProgram& program);

}  // namespace trireme::solve
