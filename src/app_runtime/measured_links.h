// How fast ranks of a pipeline reach their neighbours.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch.h"

#include "trireme/chain/platform.h"
#include "trireme/comm/link.h"

#include <vector>

namespace trireme::app {

/// What takes long enough beside a message's latency to be timed: links between GPUs carry a MiB in
/// microseconds.
Bytes long_message(const RankDevice& device);

/// Between which ranks measure_links() sends, of `ranks` in pipelines of `stages`.
std::vector<comm::Link> links_to_measure(int ranks, int stages);

/// Every rank: measures latency and rate between neighbouring ranks of the pipelines, which have
/// `context.stages` ranks each, and writes them into a platform of all ranks or of one pipeline; of
/// replicas the slowest counts. Other pairs of ranks count as the slowest of all and of the pair of
/// a pipeline's ends. Changes nothing where there are no neighbours.
void measure_links(const RankContext& context, chain::Platform& platform);

/// Every rank, with its own group of ranks, all groups at once: how fast a group adds up a buffer,
/// as chain::half_of_a_sum() counts; of groups the slowest.
chain::LinkSpec measured_sum(const RankContext& context, const std::vector<int>& group);

}  // namespace trireme::app
