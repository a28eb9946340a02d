// What a rank has of a problem, whatever its programs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/partition/problem.h"

namespace trireme::partition {

/// Micro-batches of stage k (0-based) whose forward has begun and whose backward has not ended.
int in_flight(const Question& question, int stage);

/// The chain with the times of a rank of that speed.
chain::Chain at_speed(const chain::Chain& chain, double speed);

/// What a rank with these runs has whatever its programs: parameters, gradients and optimiser on
/// the device; of the optimiser's state what is away; and the room that this takes in the outer
/// tier with the weights that come and go.
struct FixedBytes {
  Bytes held{}, optimizer_away{}, outside{};
};
FixedBytes fixed_bytes(const Question& question, int rank, const LayerRuns& runs);

}  // namespace trireme::partition
