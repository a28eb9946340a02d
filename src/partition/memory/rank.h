// Memory of a rank that does not depend on its programs, and its division among the rank's stages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"
#include "trireme/schedule/order.h"

#include <utility>
#include <vector>

namespace trireme::partition {

/// Micro-batches in flight of stage k (0-based).
int in_flight(const Question& question, int stage);
/// The order of passes of `stages` stages with these numbers in flight, one on each rank.
schedule::Order order_of(const Question& question, int stages);

/// Memory that programs are made for: the rank's budget plus Freedom::more; 0 where it has none.
Bytes memory_for_programs(const Question& question, int rank);

/// The chain with its times on a rank of this speed.
chain::Chain at_speed(const chain::Chain& chain, double speed);

/// Bytes of a rank with these runs for any programs: static bytes on the device, offloaded
/// optimizer state, and the room in the offload tier for that state and the streamed weights.
struct FixedBytes {
  Bytes held{}, offloaded_optimizer{}, outside{};
};
FixedBytes fixed_bytes(const Question& question, int rank, const LayerRuns& runs);

/// Divides a rank's fixed bytes among its stages, in chain order.
class StageShares {
 public:
  StageShares(const Question& question, const std::vector<program::StageProgram>& programs,
              const std::vector<int>& ranks);

  struct Share {
    FixedBytes fixed;
    std::vector<int> streamed;
  };
  /// The share of the next stage.
  Share next(int rank, std::pair<int, int> layers);

 private:
  struct Rank {
    LayerRuns runs;        ///< layers of the stages so far
    Bytes offloaded;       ///< offloaded optimizer state not yet given to a stage
    std::vector<int> all;  ///< streamed layers of the rank
    std::vector<int> so_far;
    Bytes window;  ///< window for updates, not yet given to a stage
  };
  const Question& question_;
  std::vector<Rank> ranks_;
};

}  // namespace trireme::partition
