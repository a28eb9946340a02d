// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/links.h"

#include "update/reducer.h"

#include <array>

namespace trireme::runtime {

using comm::Link;
using comm::Stream;

std::vector<Link> replica_links(std::span<const int> group) {
  return comm::neighbour_links(group, Stream::kControl, Stream::kControl);
}

std::vector<Link> job_links(const plan::Plan& plan, int replicas) {
  const int ranks = plan::ranks_of(plan);
  std::vector<Link> links;
  for (int replica = 0; replica < replicas; ++replica) {
    std::vector<int> of_stages;
    for (const plan::StagePlan& stage : plan.stages)
      of_stages.push_back(replica * ranks + stage.rank);
    comm::add_links(links, comm::pipeline_links(of_stages));
    const std::array ends{of_stages.front(), of_stages.back()};
    if (ends[0] != ends[1]) comm::add_links(links, replica_links(ends));
  }
  for (int rank = 0; rank < ranks; ++rank)
    comm::add_links(links, replica_links(Position::of(rank, replicas, ranks).replica_group()));
  return links;
}

std::vector<comm::Link> links_to_measure(int ranks, int stages) {
  std::vector<comm::Link> links;
  for (int first = 0; first < ranks; first += stages) {
    std::vector<int> pipeline;
    for (int k = 0; k < stages; ++k) pipeline.push_back(first + k);
    comm::add_links(links, comm::pipeline_links(pipeline));
    if (stages == 1) continue;
    // The ends stand for all pairs that are not neighbours.
    comm::add_links(links, comm::pipeline_links(std::array{pipeline.front(), pipeline.back()}));
  }
  return links;
}

}  // namespace trireme::runtime
