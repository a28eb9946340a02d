// What of a rank's state and weights is in its offload tier, and what comes and goes takes on the
// device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

#include <vector>

namespace trireme::partition {

/// The rate at which state goes and comes back: it does both.
BytesPerSecond copy_rate(const chain::RankSpec& rank);

/// Whether some rank has an offload tier that state can be in, or weights can come from.
bool some_can_move_state(const Question& question);
bool some_can_stream(const Question& question);

/// Layers that may be streamed: those that the question gives or, where that is open, all that have
/// weights that may leave. None where no rank can.
std::vector<int> streamable(const Question& question);

/// Whether all of the state is on the devices.
bool has_no_copies(const Question& question);

/// Whether some of the plan's state is in an offload tier.
bool has_state_away(const plan::Plan& plan);

/// Layers that the plan streams on any rank, ascending.
std::vector<int> streamed_by(const plan::Plan& plan);

/// Room in an offload tier of which so much may be taken; the rest is left for values.
Bytes with_margin(Bytes away);

/// What a rank's offload tier has left for outputs and tapes beside the room of state and weights.
Bytes offload_room(const chain::RankSpec& rank, Bytes outside);

/// The optimizer's state of a rank with these runs, wherever it is.
Bytes optimizer_state(const Question& question, const LayerRuns& runs);

/// Of the optimizer's state of a rank with these runs, what is in its offload tier: what is copied
/// one way in question.optimizer_copies, as far as there is room.
Bytes optimizer_away(const Question& question, int rank, const LayerRuns& runs);

/// The same of a rank with `state` bytes of it in all, and `beside` bytes of weights in its offload
/// tier.
Bytes optimizer_away(const Question& question, int rank, Bytes state, Bytes beside);

/// Of question.streamed, the layers that a rank with these runs streams: those that its offload
/// tier has room for, and none where all of them would be there at a time anyway.
std::vector<int> streamed_of(const Question& question, int rank, const LayerRuns& runs);

/// Whether a rank that streams some of these layers, so many at a time, holds less than without.
bool saves_memory(const chain::Chain& chain, const std::vector<int>& layers, int at_once);

/// Their weights, and how much less of them a rank holds than if they were not streamed.
struct StreamedBytes {
  Bytes outside, saved;
};
StreamedBytes streamed_bytes(const Question& question, const std::vector<int>& layers);

/// `count` of the layers whose weights may leave: of unequal ones the smaller, which need less of
/// the device while they come, of equal ones evenly spread, so that copies have the layers between
/// them to hide behind.
std::vector<int> layers_to_stream(const chain::Chain& chain, int count);

/// The least window in which state can come in parts.
Bytes least_window(const chain::Chain& chain);

/// Of optimizer state on its way, what a rank holds that updates layers among passes.
Bytes update_window(const Question& question);

/// The same of a rank with these runs of layers: nothing where it has no such layers, or no state
/// away.
Bytes update_window(const Question& question, int rank, const LayerRuns& runs);

}  // namespace trireme::partition
