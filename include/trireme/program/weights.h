// Parameter offload as actions: when streamed weights and gradients are copied in, waited for,
// copied out and freed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/program/action.h"
#include "trireme/program/weight_uses.h"
#include "trireme/program/weights_here.h"

#include <vector>

namespace trireme::program {

/// How the weights of a program's layers are streamed.
struct Streaming {
  std::vector<WeightsKind> kinds;  ///< by layer 0..L; empty: all stay
  int at_once = kLeastAtOnce;      ///< streamed layers on a rank's device at a time
  bool has_replicas = false;       ///< as in weight_uses()
};

/// By layer 0..L the weights that are streamed; empty: none are.
Streaming streaming_of(const std::vector<chain::OffloadWeights>& streamed, int at_once,
                       bool has_replicas);

/// The rank's actions with the moves of its streamed weights and gradients, the same in every run:
/// the run before leaves on the device what held_at_begin() says. After an action that ends the use
/// of a layer, what is no longer held is freed or copied out, and then what is held next is copied
/// in. Copies out are released before the next moves. Compute waits for a copy in right before the
/// first action that uses it, and for all copies at the end of a step.
///
/// `reduce_gradients` and `step` are followed by the same action of every streamed trained layer
/// that they are about (weight_uses()), with its moves; gradients are counted in the norm as soon
/// as they are complete.
std::vector<Action> with_weights(const std::vector<Action>& actions, const Streaming& streaming);
/// The same for all ranks.
Program with_weights(Program program, const Streaming& streaming);

/// Whether the action frees device bytes of weights or gradients that were copied out.
bool is_release(Op op);
/// Frees what the move, a copy out, has left on the device.
Action release_of(const WeightsMove& move);
/// A move as an action; and the move of an action that moves_weights() and is no release.
Action action_of(const WeightsMove& move);
WeightsMove move_of(const Action& action);

/// What must be on the device when such a list begins, in the order of its uses.
HeldWeights held_at_begin(const std::vector<Action>& actions);

}  // namespace trireme::program
