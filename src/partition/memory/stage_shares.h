// What stages that share a rank have of what the rank has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rank.h"

#include <utility>
#include <vector>

namespace trireme::partition {

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
    Bytes away;            ///< of the rank's optimiser state, that no stage has yet
    std::vector<int> all;  ///< layers that are streamed
    std::vector<int> so_far;
    Bytes window;  ///< of updates, that no stage has yet
  };
  const Question& question_;
  std::vector<Rank> ranks_;
};

}  // namespace trireme::partition
