// How a stage's program is made: the part of the planner that a cut does not decide.
//
// A stage with w micro-batches in flight holds (w - 1) K beside the working one, K being what a
// micro-batch keeps between its forward and its backward (docs: memory model). A policy answers
// for a run of layers, a memory and a w; it knows neither ranks nor cuts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
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

/// Stands for no budget.
inline constexpr Bytes kUnlimited{std::int64_t{1} << 61};
inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// Least gain that counts, relative: less is a sum of the same times in another order.
inline constexpr double kGain = 1e-9;

/// Layers first..last with `in_flight` micro-batches in `memory`, static bytes and channel outside.
struct StageQuestion {
  int first = 1, last = 1;
  Bytes memory;
  int in_flight = 1;
  /// Of the rank, in the seconds of speed 1; for policies that move values.
  std::optional<solve::HostLink> link = std::nullopt;
  /// A program that is nearly as good will do; for searches that ask about many stages.
  bool quick = false;
};

/// For keys of answers that are kept: rates and capacity of the link, 0 without one.
using LinkKey = std::tuple<double, double, Bytes>;
inline LinkKey key_of(const std::optional<solve::HostLink>& link) {
  return link ? LinkKey{link->out.count(), link->in.count(), link->capacity} : LinkKey{};
}

class StagePolicy {
 public:
  virtual ~StagePolicy() = default;
  /// Seconds of forward and backward at speed 1; kNever if it does not fit. Answers are kept.
  virtual double time(const StageQuestion& question) = 0;
  /// The program behind it; nothing if it does not fit.
  virtual std::optional<program::StageProgram> program(const StageQuestion& question) = 0;
  /// The least memory with which time() is finite; kUnlimited for a run that is too long for the
  /// solver.
  virtual Bytes least_memory(int first, int last, int in_flight) = 0;
};

/// Programs that do not depend on the budget: keep_all, recompute_all, periodic, sqrt, uniform.
using ProgramMaker = std::function<program::StageProgram(int first, int last)>;
std::unique_ptr<StagePolicy> fixed_policy(const chain::Chain& chain, ProgramMaker maker);

/// Every layer is either kept or run again from its input right before its backward; the set with
/// the least time that fits (a knapsack per stage, as AdaPipe's: Sun et al. 2024).
std::unique_ptr<StagePolicy> per_layer_policy(const chain::Chain& chain);

/// The optimum by tables (solve/stage.h). Without freedom the input of a kept tape stays with it.
std::unique_ptr<StagePolicy> table_policy(const Question& question, bool input_may_leave);

/// Nothing is run twice: what does not fit leaves between forward and backward. time() is a lower
/// bound where something has to (rates alone; program() knows), least_memory() is that without
/// copies.
std::unique_ptr<StagePolicy> offload_policy(const chain::Chain& chain);

/// A single-stage solver by name, asked for less and less memory until what its program keeps fits
/// as often as there are micro-batches in flight; its leanest program says whether any does. Throws
/// InputError for an unknown one.
std::unique_ptr<StagePolicy> solver_policy(const Question& question, const std::string& solver);

/// The policy of that name: a solver's, "joint", "madpipe" (the same), "adapipe", "uniform N",
/// "block N". Throws InputError.
std::unique_ptr<StagePolicy> policy_named(const Question& question, const std::string& name);
/// Whether that is one made for stages, which does not ask a single-stage solver.
bool has_policy_of_its_own(const std::string& name);

/// What a program takes for one micro-batch, in seconds of speed 1.
struct StageNeeds {
  Seconds forward, backward;
  Bytes kept, peak;

  double time() const { return (forward + backward).count(); }
  Bytes memory(int in_flight) const { return kept * (in_flight - 1) + peak; }
  /// What it needs while it works beyond what it keeps for every micro-batch in flight.
  Bytes beyond_kept() const { return peak - kept; }
};

/// A program with its layers that run again ending early, and what it takes by replay.
struct Prepared {
  program::StageProgram program;
  StageNeeds needs;
};
Prepared prepared(const chain::Chain& chain, program::StageProgram program);

}  // namespace trireme::partition
