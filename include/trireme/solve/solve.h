// Single-stage solvers: chain + budget (+ host link) in, program or Infeasible out.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"
#include "trireme/plan/plan.h"
#include "trireme/program/action.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace trireme::solve {

/// Link to the offload tier; both directions work in parallel to compute.
struct HostLink {
  BytesPerSecond out{0}, in{0};
  Bytes capacity;  ///< size of the offload tier
};

/// Whether values can be offloaded and copied back at all.
inline bool can_copy(const std::optional<HostLink>& link) {
  return link && link->out.count() > 0 && link->in.count() > 0 && link->capacity.count() > 0;
}

/// One micro-batch through layers first..last of a chain, forward then backward. The budget covers
/// x[first-1] and all else that the memory model counts, but not the static bytes.
struct Problem {
  const chain::Chain* chain = nullptr;
  int first_layer = 1, last_layer = 0;  ///< last_layer 0: the chain's last
  Bytes budget;
  std::optional<HostLink> link;
  int slots = 500;  ///< sizes are rounded up to budget / slots; 0: exact in bytes where feasible
  /// Beam width of offload searches on long chains, as a share of the usual number of labels kept
  /// per layer. An eighth takes a fifth of the time and gives programs that are slower by a few
  /// tenths of a percent.
  double breadth = 1;
};

/// A program with what replay (exact, in bytes) says of it.
struct Solution {
  program::StageProgram program;
  Seconds time;       ///< forward and backward, with recomputation and waits
  Bytes peak;         ///< <= budget
  Bytes kept;         ///< held between the forward and the backward part, x[first-1] included
  Seconds recompute;  ///< time of forwards beyond the first of each layer
  Bytes moved;        ///< bytes offloaded
};

using Result = std::variant<Solution, plan::Infeasible>;

/// The names of all solvers, in the order in which tables show them. Some take an argument after a
/// space: `periodic k` (2 if not given), `min_peak sum` (the simpler objective), `pofo free` (the
/// input of a layer need not be kept with its tape), `exhaustive persistent` (among
/// memory-persistent programs only).
const std::vector<std::string>& solver_names();

/// What a solver's time grows with.
enum class Growth {
  kLength,  ///< the chain's length
  kSquare,  ///< its square
  kTables,  ///< its cube, times the slots
  kSearch,  ///< the number of programs
};

struct Traits {
  Growth growth = Growth::kLength;
  bool moves = false;  ///< offloads values and copies them back
};
/// Traits of the solver of that name, with its argument or without; nothing for an unknown one.
std::optional<Traits> traits_of(std::string_view solver);

/// Solves with the solver of that name ("rotor", "periodic 3"); throws InputError for an unknown
/// one with "did you mean", for an argument it cannot read and for chains that are too long for it.
/// Every Solution is verified by replay: legal, within the budget, its time that of the replay.
/// `least_budget` of an Infeasible is exact: the peak of this solver's leanest program, by replay
/// (revolve on chains over 1024 layers: the least among the numbers of slots that it tries; solvers
/// that offload, where the offload tier is too small: the least without copies; where something of
/// tapes stays on the device, up to all that stays more than the least).
Result solve(std::string_view solver, const Problem& problem);

}  // namespace trireme::solve
