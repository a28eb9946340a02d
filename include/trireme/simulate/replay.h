// Replay of one stage's program for one micro-batch: the referee of every solver.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/core/units.h"
#include "trireme/program/action.h"

#include <optional>
#include <string>

namespace trireme::simulate {

/// Why a program may not run: the action's place in its list and the reason in words.
struct Fault {
  bool in_backward = false;  ///< in the backward list, not the forward one
  std::size_t index = 0;     ///< the list's length where the list as a whole is at fault
  program::Action action;    ///< then its last
  bool at_end = false;       ///< of what the list left undone, not of an action
  std::string reason;        ///< "x[3] is not held"
};

/// "action 4 of the backward part, backward 3: x[2] is not held", "end of the forward part: ...".
std::string to_text(const Fault& fault);

/// Rates of the copy lanes beside compute. 0: the lane does not exist and offload is a fault.
struct CopyLanes {
  BytesPerSecond out{0}, in{0};
  /// With a budget (what Replay::peak counts), an action or a copy in that would not fit waits
  /// while copies out are under way. Without one, nothing waits for room.
  std::optional<Bytes> budget;
};

/// What a program costs. With a fault, only the fault means anything.
struct Replay {
  std::optional<Fault> fault;
  Seconds time;       ///< makespan on the compute lane, waits for copies inside
  Seconds forward;    ///< of the forward list
  Seconds backward;   ///< of the backward list
  Seconds recompute;  ///< forwards beyond the first of each layer
  Bytes peak;   ///< most bytes held at once, x[first-1] and transients inside, static bytes not
  Bytes kept;   ///< held between the lists (the gradient of x[last] not yet there, x[last] given
                ///< away); what is on its way out counts as gone
  Bytes moved;  ///< bytes offloaded
  program::Action peak_at;  ///< the action at whose run the peak was
};

/// Runs `program` on the memory model (Ledger), exactly in bytes, as lowering makes it run. It
/// starts with x[first-1] held by itself. When x[last] was made for the last time in the forward
/// list, it is given away if it stands by itself (a value inside a tape stays). The gradient of
/// x[last] appears after the forward list; where layer `last` is the chain's last, in the place of
/// x[last] at once. After the backward list nothing but the gradient of x[first-1] may be left
/// (anything else is a fault: "tape 3 was never freed"). Copies take bytes / rate on their lane, in
/// the order in which they are named; device bytes leave when the copy out has ended and come when
/// the copy in begins; an action that needs the value waits. O(actions); some 30 ns each.
Replay replay(const chain::Chain& chain, const program::StageProgram& program,
              const CopyLanes& lanes = {});

}  // namespace trireme::simulate
