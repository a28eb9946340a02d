// Proof before anything runs: a program that passes can neither hang nor lack a value nor exceed a
// budget.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/chain/platform.h"
#include "trireme/core/units.h"
#include "trireme/program/action.h"
#include "trireme/program/weight_uses.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace trireme::simulate {

/// What a program runs on. Chain and platform must outlive it.
struct Setting {
  const chain::Chain* chain = nullptr;
  /// Rank by rank as in the program; `memory` is the budget, 0 stands for none. May have more
  /// ranks.
  const chain::Platform* platform = nullptr;
  /// Held by every rank all the time: parameters, gradients, optimizer, the runtime's own. Empty:
  /// nothing. Without channel_bytes(), which is added.
  std::vector<Bytes> static_bytes;
  /// A send waits while so many earlier messages of its stream to that rank have not been received.
  /// At least 1.
  int channel_capacity = 2;
  /// Of each rank's optimizer state, what is in its offload tier, from where it comes in parts and
  /// goes back when the step ends: longer where these copies take longer than the update, in
  /// bytes no more than passes hold. Not among the static bytes. Empty: nothing.
  std::vector<Bytes> optimizer_away = {};
  /// Of it, what is on the device at a time where layers are updated among passes
  /// (program::with_updates): chain::state_parts(), among the static bytes of a rank that has such
  /// layers and state away.
  Bytes update_window = {};
  /// Weights that are in the offload tier of their layer's rank and come for every use of the
  /// layer, by layer 0..length, each with its gradients where it is trained. What is there at a
  /// time, chain::weights_window(), is among the static bytes. Empty: none.
  std::vector<chain::OffloadWeights> streamed = {};
  int weights_at_once = program::kLeastAtOnce;  ///< of so many layers
  /// Of the pipeline: with several, streamed gradients come once more, to be added up, which takes
  /// its time on the platform's replica_link.
  int replicas = 1;
  /// As many, where each replica updates its part of the weights and hands it round.
  int optimizer_shards = 1;
  /// The first step of a run: a receiver asks for the first output of a layer only once its turn
  /// has come, for it does not know the shape; later ones are asked for ahead.
  bool is_first_step = false;
};

/// What the transport of `rank` holds beside the program's values: platform.channel_buffers times
/// input and gradient of every cut at which the rank stands (docs: memory model).
Bytes channel_bytes(const Setting& setting, const program::Program& program, int rank);

/// Why sizes are too many to count with, nothing if they are not: all values of all micro-batches
/// held at once, beside `fixed` bytes and channel buffers, must stay below 2 EiB.
std::optional<std::string> too_large(const chain::Chain& chain, const chain::Platform& platform,
                                     int micro_batches, Bytes fixed);

/// What is wrong with a program, and where.
struct ProgramFault {
  int rank = -1;          ///< -1: of the program as a whole
  std::size_t index = 0;  ///< of the action in its rank's list; the list's length: of its end
  std::optional<program::Action> action;
  std::string reason;

  bool operator==(const ProgramFault&) const = default;
};

/// "rank 1, action 7 (2:backward 3): x[2] is not held".
std::string to_text(const ProgramFault& fault);

/// The first thing that is wrong, nothing if the program is proven:
/// - every action is on the rank of its layer and of a layer and micro-batch that exist;
/// - every value exists where it is used, is made once, is not used while it is away, and is gone
/// at
///   the end; every copy out stands before its copy in;
/// - both ends of every stream name the same messages in the same order (outputs and gradients
///   between two ranks are a stream each), and nothing sent stays unreceived;
/// - nobody waits in a circle, with sends that wait as Setting::channel_capacity says, and copies
/// out of what a message may still read that wait until it is gone, in the first step, too;
/// - every micro-batch runs every layer, reads its loss once and, where the program trains, runs
///   every backward once;
/// - the end of the step is on every rank, complete and last, or on none;
/// - layers are updated once, those with an update of their own before their first forward or after
///   their last backward, in all the program alike;
/// - every rank stays within its budget, and its offload tier, optimizer state and weights inside,
///   within host + disk. A copy out frees its bytes at once here: whoever runs the program waits
///   for copies out where bytes are short. A copy in has its bytes from where it is named on, and
///   keeps its place in the offload tier until an action needs the value.
///
/// O(actions).
std::optional<ProgramFault> validate(const program::Program& program, const Setting& setting);

}  // namespace trireme::simulate
