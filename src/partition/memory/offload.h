// Offload of optimizer state and weights: bytes in a rank's offload tier and in the device windows
// for copies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

#include <vector>

namespace trireme::partition {

/// Copy rate of optimizer state, which goes both ways.
BytesPerSecond copy_rate(const chain::RankSpec& rank);

/// Whether some rank can offload optimizer state, or stream weights.
bool some_can_move_state(const Question& question);
bool some_can_stream(const Question& question);

/// Layers that may be streamed: the question's or, where that is open, all streamable ones. None
/// where no rank can stream.
std::vector<int> streamable(const Question& question);

/// Whether no optimizer state is offloaded.
bool has_no_copies(const Question& question);

/// Whether the plan offloads optimizer state.
bool has_offloaded_state(const plan::Plan& plan);

/// Layers that the plan streams on any rank, ascending.
std::vector<int> streamed_by(const plan::Plan& plan);

/// Offload tier size of which `offloaded` bytes may be used; the rest is left for activations.
Bytes with_margin(Bytes offloaded);

/// Room in a rank's offload tier for outputs and tapes, next to `outside` bytes of state and
/// weights.
Bytes offload_room(const chain::RankSpec& rank, Bytes outside);

/// Bytes of optimizer state of a rank with these runs, on the device or offloaded.
Bytes optimizer_state(const Question& question, const LayerRuns& runs);

/// Offloaded bytes of the optimizer state of a rank with these runs: what question.optimizer_copies
/// and the tier's room allow.
Bytes offloaded_optimizer(const Question& question, int rank, const LayerRuns& runs);

/// The same for a rank with `state` bytes of optimizer state and `beside` bytes of weights in its
/// offload tier.
Bytes offloaded_optimizer(const Question& question, int rank, Bytes state, Bytes beside);

/// Layers of question.streamed that a rank with these runs streams: those that fit its offload
/// tier; none where all of them would be on the device at a time anyway.
std::vector<int> streamed_of(const Question& question, int rank, const LayerRuns& runs);

/// Whether streaming some of these layers, `at_once` on the device at a time, saves memory.
bool saves_memory(const chain::Chain& chain, const std::vector<int>& layers, int at_once);

/// Bytes of streamed weights in the offload tier, and the device bytes that streaming saves.
struct StreamedBytes {
  Bytes outside, saved;
};
StreamedBytes streamed_bytes(const Question& question, const std::vector<int>& layers);

/// `count` of the streamable layers: smaller ones first, which take less of the device while they
/// are used; equal ones evenly spread, so that the layers between them hide their copies.
std::vector<int> layers_to_stream(const chain::Chain& chain, int count);

/// Least window for copying state in parts.
Bytes least_window(const chain::Chain& chain);

/// Device window for optimizer state in an overlapped optimizer step.
Bytes update_window(const Question& question);

/// The same for a rank with these runs: 0 where it updates no such layers or offloads no state.
Bytes update_window(const Question& question, int rank, const LayerRuns& runs);

}  // namespace trireme::partition
