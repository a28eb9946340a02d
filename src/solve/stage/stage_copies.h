// Stages whose kept items leave between forward and backward.
//
// With w micro-batches in flight an item kept at the pause rests for w - 1 periods. Items that go
// out in this time and come back weigh on the device only while they leave and return, so a program
// that keeps K may run where only K less the bytes moved fits w - 1 times. Moved are the items of
// the earliest layers: made first, needed last. What the copies cost is for the simulator to say:
// it runs the stage alone, one forward and one backward after the other with w in flight, next to a
// stage that answers at once, and the time of one more micro-batch is the stage's period.
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
  /// The problem has a link. Both must outlive it.
  StageCopies(const chain::Chain& chain, const StageProblem& problem);

  /// Seconds that a program must beat.
  Seconds bound{std::numeric_limits<double>::infinity()};

  /// Tries how many of what the program keeps must leave, earliest layers first, and a few more.
  void offer(const program::StageProgram& program);
  /// The fastest of what was offered, other items tried, too; nothing if none fits. Forgets them.
  std::optional<StageSolution> best();
  /// Most bytes that can leave in a period that would still be an improvement.
  Bytes most_moved() const;

 private:
  struct Item {
    program::ValueKey key;
    Bytes size;
    std::size_t leaves_after = 0;   ///< which action of the forward list
    std::size_t needed_before = 0;  ///< which of the backward list
  };
  struct Program {
    program::StageProgram actions;  ///< of the stage as a chain of its own
    std::vector<Item> items;        ///< kept, earliest layers first
    std::vector<Bytes> during;      ///< of the backward actions, one micro-batch alone
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
  /// The least number of items, the earliest, with which it fits.
  std::size_t least_number(const Program& program) const;
  program::StageProgram with_copies(const Program& program, const Moved& moved) const;
  std::vector<Return> returns(const Program& program, const Moved& moved) const;
  /// What the backward's actions take where every item that leaves is back right before its use.
  static std::vector<Bytes> during_backward(const Program& program, const Moved& moved);
  /// What is left for them beside what the other micro-batches keep.
  Bytes room(const Program& program, const Moved& moved) const;
  /// Whether it could fit if copies took no time; what does not needs no simulation.
  bool may_fit(const Program& program, const Moved& moved) const;
  /// What the simulator says; nothing if that is not below `below` or does not fit.
  std::optional<StageSolution> judged(const Program& program, const Moved& moved,
                                      Seconds below) const;
  struct Candidate {
    Program program;
    Moved moved;
    StageSolution solution;
  };
  void improve(Candidate& candidate) const;

  struct Run {
    Seconds step;
    Bytes peak, offloaded;
  };
  std::optional<Run> run(const program::StageProgram& program, int micro_batches) const;

  const StageProblem& problem_;
  chain::Chain
      alone_;  ///< the stage's layers, then a layer that costs nothing unless it has the loss
  bool with_loss_;
  std::vector<program::StageProgram> offered_;
  std::vector<Candidate> candidates_;  // best first
};

}  // namespace trireme::solve
