// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/position.h"

namespace trireme::runtime {

Position Position::of(int world_rank, int replicas, int stages) {
  return {.replicas = replicas,
          .stages = stages,
          .replica = world_rank / stages,
          .pipeline_rank = world_rank % stages};
}

std::vector<int> Position::pipeline_group() const {
  std::vector<int> group;
  for (int r = 0; r < stages; ++r) group.push_back(replica * stages + r);
  return group;
}

std::vector<int> Position::replica_group() const {
  std::vector<int> group;
  for (int r = 0; r < replicas; ++r) group.push_back(r * stages + pipeline_rank);
  return group;
}

}  // namespace trireme::runtime
