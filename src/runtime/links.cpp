// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/links.h"

#include "trireme/runtime/reducer.h"

#include <algorithm>

namespace trireme::runtime {
namespace {

using comm::Link;
using comm::Stream;

/// There with one stream, back with another one.
void add_pair(std::vector<Link>& links, int from, int to, Stream there, Stream back) {
  if (from == to) return;
  for (const Link& link : {Link{from, to, there}, Link{to, from, back}}) {
    if (std::find(links.begin(), links.end(), link) == links.end()) links.push_back(link);
  }
}

}  // namespace

std::vector<Link> replica_links(std::span<const int> group) {
  std::vector<Link> links;
  for (std::size_t i = 0; i + 1 < group.size(); ++i)
    add_pair(links, group[i], group[i + 1], Stream::kControl, Stream::kControl);
  return links;
}

std::vector<Link> job_links(const plan::Plan& plan, int replicas) {
  const int ranks = plan::ranks_of(plan);
  std::vector<Link> links;
  for (int replica = 0; replica < replicas; ++replica) {
    const auto rank_of = [&](std::size_t stage) {
      return replica * ranks + plan.stages[stage].rank;
    };
    const std::size_t last = plan.stages.size() - 1;
    for (std::size_t k = 0; k < last; ++k)
      add_pair(links, rank_of(k), rank_of(k + 1), Stream::kOutputs, Stream::kGradients);
    add_pair(links, rank_of(0), rank_of(last), Stream::kControl, Stream::kControl);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<Link> sums =
        replica_links(Position::of(rank, replicas, ranks).replica_group());
    links.insert(links.end(), sums.begin(), sums.end());
  }
  return links;
}

}  // namespace trireme::runtime
