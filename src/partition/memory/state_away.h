// How much of the optimiser's state a rank has in its outer tier, and what room that takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

namespace trireme::partition {

/// The rate at which state goes and comes back: it does both.
BytesPerSecond copy_rate(const chain::RankSpec& rank);

/// Whether some rank has an outer tier that state can be in.
bool some_can_move_state(const Question& question);

/// Whether all of the state is on the devices.
bool has_no_copies(const Question& question);

/// Whether some of the plan's state is in an outer tier.
bool has_state_away(const plan::Plan& plan);

/// Room in an outer tier of which so much may be taken; the rest is left for values.
Bytes with_margin(Bytes away);

/// The optimiser's state of a rank with these runs, wherever it is.
Bytes optimizer_state(const Question& question, const LayerRuns& runs);

/// Of the optimiser's state of a rank with these runs, what is in its outer tier: what is copied
/// one way in question.optimizer_copies, as far as there is room.
Bytes optimizer_away(const Question& question, int rank, const LayerRuns& runs);

/// The same of a rank with `state` bytes of it in all, and `beside` bytes of weights in its outer
/// tier.
Bytes optimizer_away(const Question& question, int rank, Bytes state, Bytes beside);

/// What a rank's outer tier has left for outputs and tapes beside the room of state and weights.
Bytes outer_room(const chain::RankSpec& rank, Bytes outside);

}  // namespace trireme::partition
