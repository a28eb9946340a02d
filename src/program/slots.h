// List scheduling of passes in time: for the grid, and for the order of several stages on one rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/program/generate.h"

#include <vector>

namespace trireme::program {

struct StagePass {
  Pass pass;
  int stage = 0;
};

/// A pass with the time at which it begins; passes of equal length 1 begin at whole numbers.
struct PlacedPass {
  StagePass pass;
  double begin = 0;
};

/// Passes that run in this order on one rank; a rank may have several such lists and, whenever it
/// is free, takes a pass that may run from one of them.
struct PassList {
  int rank = 0;
  std::vector<StagePass> passes;
};

struct Placed {
  std::vector<std::vector<PlacedPass>> ranks;  ///< in the order in which they run
  double end = 0;
};

/// For every rank of 0..ranks-1 when its passes run. A pass may run once its forward and the
/// neighbour stage's pass have ended (on another rank: and their message has arrived), if the lists
/// have them. Where a rank could run several, a backward goes first (it frees memory), then the
/// earlier micro-batch. Without `times` every pass takes 1 and messages 0. Throws InputError when
/// the lists deadlock.
Placed place(const std::vector<PassList>& lists, int ranks, const StageTimes* times = nullptr);

}  // namespace trireme::program
