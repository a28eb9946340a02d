// Exact replay of one stage's program for one micro-batch; every solver's result is judged by it.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"
#include "trireme/program/action.h"
#include "trireme/simulate/validate.h"

#include <optional>
#include <string>

namespace trireme::simulate {

/// Why a program cannot run: the action's index in its list and the reason in words.
struct Fault {
  bool in_backward = false;  ///< in the backward list, not the forward one
  std::size_t index = 0;     ///< the list's length if the list as a whole is at fault
  program::Action action;    ///< the last one if the list as a whole is at fault
  bool at_end = false;       ///< the list left something undone; no action is at fault
  std::string reason;        ///< "x[3] is not held"
};

/// "action 4 of the backward part, backward 3: x[2] is not held", "end of the forward part: ...".
std::string to_text(const Fault& fault);

/// Rates of the copy lanes that run in parallel to compute. 0: the lane does not exist and offload
/// is a fault.
struct CopyLanes {
  BytesPerSecond out{0}, in{0};
  /// Limit on what Replay::peak counts: an action or a copy in that would exceed it waits while
  /// copies out are in progress. Without a budget nothing waits for memory.
  std::optional<Bytes> budget;
};

/// What a program costs. With a fault, all other members are meaningless.
struct Replay {
  std::optional<Fault> fault;
  Seconds time;       ///< makespan on the compute lane, waits for copies included
  Seconds forward;    ///< time of the forward list
  Seconds backward;   ///< time of the backward list
  Seconds recompute;  ///< forwards beyond the first of each layer
  Bytes peak;   ///< most bytes held at once, with x[first-1] and transients, without static bytes
  Bytes kept;   ///< held between the lists (x[last] already passed on, its gradient not yet
                ///< received); values being copied out do not count
  Bytes moved;  ///< bytes offloaded
  program::Action peak_at;  ///< the action that ran at the peak
};

/// Runs `program` on the memory model (Ledger), exactly in bytes, as the lowered program runs. It
/// starts with x[first-1] held by itself. Once x[last] was made for the last time in the forward
/// list, it is passed on and freed if it is held by itself (inside a tape it stays). The gradient
/// of x[last] appears after the forward list; where layer `last` is the chain's last, it replaces
/// x[last] at once. After the backward list nothing but the gradient of x[first-1] may be left
/// (anything else is a fault: "tape 3 was never freed"). Copies take bytes / rate on their lane, in
/// program order; device bytes are freed when a copy out ends and taken when a copy in begins; an
/// action that needs the value waits. `clocks`, by layer as in Setting: nullptr for the usual ones.
/// O(actions); about 30 ns each.
Replay replay(const chain::Chain& chain, const program::StageProgram& program,
              const CopyLanes& lanes = {}, const std::vector<LayerClocks>* clocks = nullptr);

}  // namespace trireme::simulate
