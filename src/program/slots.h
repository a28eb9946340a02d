// Passes in time slots of equal length: what the grid draws, and the order of several stages on one
// rank.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/generate.h"

#include <vector>

namespace trireme::program {

struct StagePass {
  Pass pass;
  int stage = 0;
};

/// A pass with the slot in which it runs.
struct SlottedPass {
  StagePass pass;
  int slot = 0;
};

/// Passes that run in this order on one rank; a rank may have several such lists and then takes, in
/// every slot, one pass of them that may run.
struct PassList {
  int rank = 0;
  std::vector<StagePass> passes;
};

/// For every rank of 0..ranks-1 its passes by slot. A pass runs once its forward and its neighbour
/// stage's pass have run, as far as the lists have them. Where a rank could run several, a backward
/// goes first (it frees memory), then the earlier micro-batch. Throws InputError when the lists
/// wait for one another in a circle.
std::vector<std::vector<SlottedPass>> place(const std::vector<PassList>& lists, int ranks);

}  // namespace trireme::program
