// A rank's replica and pipeline rank.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace trireme::runtime {

/// This rank's position in the job. Ranks of one replica have consecutive world ranks.
struct Position {
  int replicas = 1;
  int stages = 1;  ///< ranks per pipeline
  int replica = 0;
  int pipeline_rank = 0;

  static Position of(int world_rank, int replicas, int stages);
  /// World ranks of this rank's pipeline, and of its counterparts in all replicas, in order.
  std::vector<int> pipeline_group() const;
  std::vector<int> replica_group() const;
};

}  // namespace trireme::runtime
