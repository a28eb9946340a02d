// List scheduling of passes of chunks that each have an order of their own: by equal slots, or by
// times.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/schedule/order.h"

#include <vector>

namespace trireme::schedule {

/// A pass with its micro-batch; F, B or I, for which an I is as long as a B.
struct NumberedPass {
  Pass pass;
  int micro_batch = 0;
};

/// A pass with the time at which it begins; passes of equal length 1 begin at whole numbers.
struct PlacedPass {
  NumberedPass pass;
  double begin = 0;
};

/// Passes that run in this order on one rank; a rank may have several such lists and, whenever it
/// is free, takes a pass that may run from one of them.
struct PassList {
  int rank = 0;
  std::vector<NumberedPass> passes;
};

struct Placed {
  std::vector<std::vector<PlacedPass>> ranks;  ///< in the order in which they run
  double end = 0;
};

/// Seconds of one micro-batch, by chunk; `message`: for sending an output, or its gradient, between
/// a chunk and the next (one fewer; 0 within a rank).
struct ChunkTimes {
  std::vector<double> forward, backward, message;
};

/// For every rank of 0..ranks-1 when its passes run. A pass may run once its forward and the
/// neighbour chunk's pass have ended (on another rank: and their message has arrived), if the lists
/// have them. Where a rank could run several, a backward goes first (it frees memory), then the
/// earlier micro-batch. Without `times` every pass takes 1 and messages 0. Throws InputError when
/// the lists deadlock.
Placed place(const std::vector<PassList>& lists, int ranks, const ChunkTimes* times = nullptr);

/// The order of chunks on these ranks out of the order of each chunk's own passes. A rank's chunks
/// take turns as passes of equal length would, by place(), and then have no W.
Order on_ranks(const std::vector<std::vector<Pass>>& by_chunk, const Placement& placement);

/// An order, and when its last pass ends.
struct PlacedOrder {
  Order order;
  double end = 0;
};
/// The same by place() with times, or in equal slots; without W.
PlacedOrder placed_order(const std::vector<std::vector<Pass>>& by_chunk, const Placement& placement,
                         const ChunkTimes* times = nullptr);

}  // namespace trireme::schedule
