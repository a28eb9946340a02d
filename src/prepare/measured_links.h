// Measures the links between the ranks of pipelines and of their replicas.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/platform.h"
#include "trireme/ranks/rank_context.h"

#include <vector>

namespace trireme::prepare {

/// Size of a message that takes long enough, compared to its latency, to be timed: links between
/// GPUs carry a MiB in microseconds.
Bytes long_message(const ranks::RankDevice& device);

/// Collective: measures latency and rate between neighbouring ranks of the pipelines, which have
/// `context.stages` ranks each, and writes them into a platform of all ranks or of one pipeline;
/// among replicas the slowest counts. Other pairs of ranks get the slowest of all links and of the
/// one between a pipeline's ends. Changes nothing where there are no neighbours.
void measure_links(const ranks::RankContext& context, chain::Platform& platform);

/// Collective, each rank with its own group of ranks, all groups at once: how fast a group
/// all-reduces a buffer, as chain::half_of_a_sum() counts; the slowest group counts.
chain::LinkSpec measured_sum(const ranks::RankContext& context, const std::vector<int>& group);

}  // namespace trireme::prepare
