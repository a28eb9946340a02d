// Which layers of a rank have their weights in the outer tier, and how many bytes that is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

#include <vector>

namespace trireme::partition {

/// Whether some rank has an outer tier that weights can come from.
bool some_can_stream(const Question& question);

/// Layers that may be streamed: those that the question gives or, where that is open, all that have
/// weights that may leave. None where no rank can.
std::vector<int> streamable(const Question& question);

/// Layers that the plan streams on any rank, ascending.
std::vector<int> streamed_by(const plan::Plan& plan);

/// Of question.streamed, the layers that a rank with these runs streams: those that its outer tier
/// has room for, and none where all of them would be there at a time anyway.
std::vector<int> streamed_of(const Question& question, int rank, const LayerRuns& runs);

/// Their weights, and how much less of them a rank holds than if they were not streamed.
struct StreamedBytes {
  Bytes outside, saved;
};
StreamedBytes streamed_bytes(const Question& question, const std::vector<int>& layers);

/// `count` of the layers whose weights may leave: of unequal ones the smaller, which need less of
/// the device while they come, of equal ones evenly spread, so that copies have the layers between
/// them to hide behind.
std::vector<int> layers_to_stream(const chain::Chain& chain, int count);

}  // namespace trireme::partition
