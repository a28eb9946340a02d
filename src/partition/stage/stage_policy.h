// Stage policies: how a stage's program is made, independent of the cut.
//
// A stage with w micro-batches in flight holds (w - 1) K in addition to the working one, K being
// what a micro-batch keeps between its forward and its backward (docs/memory.md). A policy
// answers for a run of layers, a memory size and a w; it knows neither ranks nor cuts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/chain/layer_range.h"
#include "trireme/core/units.h"
#include "trireme/partition/problem.h"
#include "trireme/program/action.h"
#include "trireme/solve/solve.h"

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace trireme::partition {

/// Memory without a budget.
inline constexpr Bytes kUnlimited{std::int64_t{1} << 61};
inline constexpr Seconds kNever{std::numeric_limits<double>::infinity()};

/// Least relative gain that counts; less is rounding of sums in another order.
inline constexpr double kGain = 1e-9;

/// `layers` with `in_flight` micro-batches in `memory`, which excludes static bytes and channel
/// buffers.
struct StageQuestion {
  chain::LayerRange layers;
  Bytes memory;
  int in_flight = 1;
  /// Copy link of the rank, in seconds of speed 1; for policies with copies.
  std::optional<solve::HostLink> link = std::nullopt;
  /// Accepts a nearly optimal program; for searches over many stages.
  bool quick = false;
};

/// Memoization key: rates and capacity of the link, 0 without one.
using LinkKey = std::tuple<double, double, Bytes>;
inline LinkKey key_of(const std::optional<solve::HostLink>& link) {
  return link ? LinkKey{link->out.count(), link->in.count(), link->capacity} : LinkKey{};
}

class StagePolicy {
 public:
  virtual ~StagePolicy() = default;
  /// Time of forward and backward at speed 1; kNever if it does not fit. Memoized.
  virtual Seconds time(const StageQuestion& question) = 0;
  /// The program of that time; empty if it does not fit.
  virtual std::optional<program::StageProgram> program(const StageQuestion& question) = 0;
  /// The least memory with which time() is finite; kUnlimited for a run that is too long for the
  /// solver.
  virtual Bytes least_memory(chain::LayerRange layers, int in_flight) = 0;
};

/// Programs that do not depend on the budget: keep_all, recompute_all, periodic, sqrt, uniform.
using ProgramMaker = std::function<program::StageProgram(int first, int last)>;
std::unique_ptr<StagePolicy> fixed_policy(const chain::Chain& chain, ProgramMaker maker);

/// Every layer is either kept or recomputed from its input right before its backward: the fastest
/// set that fits (a knapsack per stage, as in AdaPipe: Sun et al. 2024).
std::unique_ptr<StagePolicy> per_layer_policy(const chain::Chain& chain);

/// The optimum by tables (solve/stage.h). Without `input_may_leave` the input of a kept tape stays
/// with it.
std::unique_ptr<StagePolicy> table_policy(const Question& question, bool input_may_leave);

/// No recomputation: what does not fit is offloaded between forward and backward. time() is then a
/// lower bound (from rates alone; program() is exact), least_memory() is that without copies.
std::unique_ptr<StagePolicy> offload_policy(const chain::Chain& chain);

/// A single-stage solver by name, given less and less memory until what its program keeps fits for
/// all micro-batches in flight; its leanest program decides whether any does. Throws InputError for
/// an unknown name.
std::unique_ptr<StagePolicy> solver_policy(const Question& question, const std::string& solver);

/// The policy of that name: a solver's, "joint", "madpipe" (the same), "adapipe", "uniform N",
/// "block N". Throws InputError.
std::unique_ptr<StagePolicy> policy_named(const Question& question, const std::string& name);
/// Whether the name is a stage policy that does not use a single-stage solver.
bool has_policy_of_its_own(const std::string& name);

/// Time (at speed 1) and memory of a program for one micro-batch alone.
struct StageNeeds {
  Seconds forward, backward;
  Bytes kept, peak;
  Bytes moved;  ///< offloaded between forward and backward

  Seconds time() const { return forward + backward; }
  Bytes memory(int in_flight) const { return kept * (in_flight - 1) + peak; }
  /// Working memory beyond what is kept for every micro-batch in flight.
  Bytes beyond_kept() const { return peak - kept; }
};

/// A program with early-stop recomputation applied, and its needs by replay; `link` in seconds of
/// speed 1, for programs that offload.
struct Prepared {
  program::StageProgram program;
  StageNeeds needs;
};
Prepared prepared(const chain::Chain& chain, program::StageProgram program,
                  const std::optional<solve::HostLink>& link = std::nullopt);

}  // namespace trireme::partition
