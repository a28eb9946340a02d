// Activation offload of stages: kept items are in the offload tier between forward and backward.
//
// With w micro-batches in flight an item kept at the pause is idle for w - 1 periods. Items
// offloaded in this time take device memory only while they are copied, so a program that keeps K
// may run where only K less the bytes moved fits w - 1 times. The items of the earliest layers are
// moved: made first, needed last. The simulator gives the cost of the copies: it runs the stage
// alone, one forward and one backward after the other with w in flight, next to a stage that
// answers at once; the time of one more micro-batch is the stage's period.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "copies/returns.h"

#include "trireme/chain/chain.h"
#include "trireme/program/action.h"
#include "trireme/program/needs.h"
#include "trireme/solve/stage.h"

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

namespace trireme::solve {

class StageCopies {
 public:
  /// The problem must have a link. Chain and problem must outlive it.
  StageCopies(const chain::Chain& chain, const StageProblem& problem);

  /// Seconds that a program must beat.
  Seconds bound{std::numeric_limits<double>::infinity()};

  /// Tries the number of the program's kept items that must leave, earliest layers first, and a few
  /// more.
  void offer(const program::StageProgram& program);
  /// The fastest of the offered programs, also with other items moved; nothing if none fits.
  /// Forgets the programs.
  std::optional<StageSolution> best();
  /// Most bytes that can be copied in a period that still beats `bound`.
  Bytes most_moved() const;

 private:
  struct Item {
    program::ValueKey key;
    Bytes size;
    std::size_t leaves_after = 0;   ///< index in the forward list
    std::size_t needed_before = 0;  ///< index in the backward list
  };
  struct Program {
    program::StageProgram actions;  ///< actions of the stage as its own chain
    std::vector<Item> items;        ///< kept, earliest layers first
    std::vector<Bytes> during;      ///< bytes at the backward actions, one micro-batch alone
    Bytes kept;
    Seconds forward, backward, recompute;
  };

  Program studied(const program::StageProgram& program) const;
  void find_uses(Program& program) const;
  static void set_uses(const program::StageProgram& program, std::size_t made, Item& item);
  /// Which items leave.
  using Moved = std::vector<bool>;
  static Moved earliest(const Program& program, std::size_t count);
  static Bytes bytes_of(const Program& program, const Moved& moved);
  /// The least number of items, earliest first, with which the program fits.
  std::size_t least_number(const Program& program) const;
  program::StageProgram with_copies(const Program& program, const Moved& moved) const;
  std::vector<Return> returns(const Program& program, const Moved& moved) const;
  /// Bytes at the backward actions if every item that leaves is back right before its use.
  static std::vector<Bytes> during_backward(const Program& program, const Moved& moved);
  /// Bytes left for them next to what the other micro-batches keep.
  Bytes room(const Program& program, const Moved& moved) const;
  /// Whether it would fit if copies took no time; if not, it needs no simulation.
  bool may_fit(const Program& program, const Moved& moved) const;
  /// The simulator's result; nothing if its time is not below `below` or it does not fit.
  std::optional<StageSolution> judged(const Program& program, const Moved& moved,
                                      Seconds below) const;
  struct Candidate {
    Program program;
    Moved moved;
    StageSolution solution;
  };
  void improve(Candidate& candidate) const;

  struct SimulatedRun {
    Seconds step;
    Bytes peak, offloaded;
  };
  std::optional<SimulatedRun> run(const program::StageProgram& program, int micro_batches) const;

  const StageProblem& problem_;
  chain::Chain
      alone_;  ///< the stage's layers, then a layer that costs nothing unless it has the loss
  bool with_loss_;
  std::vector<program::StageProgram> offered_;
  std::vector<Candidate> candidates_;  // best first
};

}  // namespace trireme::solve
