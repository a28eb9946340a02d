// State of a ledger: marks of held values, byte sums, one function per operation.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cells.h"

#include "trireme/simulate/ledger.h"

#include <optional>

namespace trireme::simulate {

struct Ledger::State {
  State(const chain::Chain& of, Scope within);

  Outcome run(const program::Action& action);

  const chain::Chain& chain;
  Scope scope;
  Cells cells;
  Bytes held, offloaded;

 private:
  Outcome forward(int i, bool drops_input);
  Outcome forward_tape(int i);
  Outcome retape(int i);
  Outcome backward(int i);
  Outcome backward_input(int i);
  Outcome backward_weights(int i);
  Outcome drop(int i);
  Outcome offload(int i);
  Outcome prefetch(int i);
  Outcome offload_tape(int i);
  Outcome prefetch_tape(int i);
  Outcome take_output(int i);
  Outcome give_output(int i);
  Outcome take_gradient(int i);
  Outcome give_gradient(int i);
  Outcome load_target(int i);
  Outcome read_loss(int i);

  bool is_last(int i) const { return i == chain.length(); }
  bool has(int i, Mark mark) const { return cells.has(i, mark); }
  bool output_available(int i) const { return has(i, Mark::kOutput) || has(i, Mark::kTape); }
  bool has_tape(int i) const { return has(i, Mark::kTape) || has(i, Mark::kBareTape); }
  /// Bytes of x[i] if it is held by itself, else 0.
  Bytes standalone(int i) const { return has(i, Mark::kOutput) ? chain.output(i) : Bytes(0); }

  /// Why x[i] cannot be read.
  Outcome refuse_missing(int i) const;
  /// Why layer i cannot run backward.
  std::optional<Outcome> refuse_backward(int i) const;
  /// Applies what a backward frees and makes; returns the bytes held afterwards.
  Bytes pass_backward(int i);
  /// Why layer i cannot run forward, be it taped or not.
  std::optional<Outcome> refuse_forward(int i) const;
  /// Why x[i] cannot be made or received.
  std::optional<Outcome> refuse_second(int i) const;
  Outcome settle(Bytes during, Bytes after);
};

}  // namespace trireme::simulate
