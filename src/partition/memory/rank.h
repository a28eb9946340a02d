// What a rank has of a problem, whatever its programs, and what stages that share it have of that.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

#include <utility>
#include <vector>

namespace trireme::partition {

/// Micro-batches of stage k (0-based) whose forward has begun and whose backward has not ended.
int in_flight(const Question& question, int stage);

/// What a rank may take in all while it runs the programs that are made: its budget, and
/// Freedom::more of it; 0 where it has none.
Bytes memory_for_programs(const Question& question, int rank);

/// The chain with the times of a rank of that speed.
chain::Chain at_speed(const chain::Chain& chain, double speed);

/// What a rank with these runs has whatever its programs: parameters, gradients and optimizer on
/// the device; of the optimizer's state what is away; and the room that this takes in the offload
/// tier with the weights that come and go.
struct FixedBytes {
  Bytes held{}, optimizer_away{}, outside{};
};
FixedBytes fixed_bytes(const Question& question, int rank, const LayerRuns& runs);

/// What each stage of a rank has of what the rank has: stages in the order of their layers.
class StageShares {
 public:
  StageShares(const Question& question, const std::vector<program::StageProgram>& programs,
              const std::vector<int>& ranks);

  struct Share {
    FixedBytes fixed;
    std::vector<int> streamed;
  };
  /// Of the next stage.
  Share next(int rank, std::pair<int, int> layers);

 private:
  struct Rank {
    LayerRuns runs;        ///< of the stages so far
    Bytes away;            ///< of the rank's optimizer state, that no stage has yet
    std::vector<int> all;  ///< layers that are streamed
    std::vector<int> so_far;
    Bytes window;  ///< of updates, that no stage has yet
  };
  const Question& question_;
  std::vector<Rank> ranks_;
};

}  // namespace trireme::partition
