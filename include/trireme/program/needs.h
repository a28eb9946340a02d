// Which outputs and tapes an action needs on the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/action.h"

namespace trireme::program {

/// A value that can be offloaded: an output held by itself, or a tape, which includes the output.
struct ValueKey {
  bool tape = false;
  int layer = 0;
  int micro_batch = 0;

  auto operator<=>(const ValueKey&) const = default;
};

/// What an action moves: offload, prefetch, what place_copies() adds, and the same of tapes.
inline ValueKey moved_value(const Action& action) {
  const bool tape = action.op == Op::kOffloadTape || action.op == Op::kPrefetchTape ||
                    action.op == Op::kReleaseTape || action.op == Op::kCopyInTape ||
                    action.op == Op::kAwaitTape;
  return {tape, action.layer, action.micro_batch};
}

inline bool is_copy_out(Op op) {
  return op == Op::kOffload || op == Op::kOffloadTape;
}

inline bool is_copy_in(Op op) {
  return op == Op::kPrefetch || op == Op::kPrefetchTape;
}

/// Calls `visit(ValueKey)` for every output and tape that must be on the device before `action`
/// runs, if it exists: x[i] is held by itself or in a tape, so both are named.
template <class Visit>
void for_each_need(const Action& action, Visit visit) {
  const auto need = [&](bool tape, int layer) { visit(ValueKey{tape, layer, action.micro_batch}); };
  const int i = action.layer;
  switch (action.op) {
    case Op::kForward:
    case Op::kForwardKeep:
    case Op::kForwardTape:
    case Op::kRetape:
      need(false, i - 1);
      need(true, i - 1);
      break;
    case Op::kBackward:
    case Op::kBackwardInput:
      need(true, i);
      need(false, i - 1);
      need(true, i - 1);
      break;
    case Op::kDrop:
    case Op::kOffload:
      need(false, i);
      break;
    case Op::kOffloadTape:
      need(true, i);
      break;
    case Op::kSendOutput:
    case Op::kReadLoss:
      need(false, i);
      need(true, i);
      break;
    default:
      break;
  }
}

}  // namespace trireme::program
