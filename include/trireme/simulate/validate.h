// Verification of a program before it runs: one that passes can neither deadlock nor lack a value
// nor exceed a memory budget.
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

/// A clock relative to the usual one: factors of time and of watts (chain::Clock).
struct ClockFactors {
  double time = 1, power = 1;
};
/// Clocks of a layer's passes: of its first forward, and of its backward with recomputed forwards.
struct LayerClocks {
  ClockFactors forward, backward;
};

/// What a program runs on. Chain and platform must outlive it.
struct Setting {
  const chain::Chain* chain = nullptr;
  /// Ranks in the program's order; `memory` is the budget, 0 stands for none. May have more ranks
  /// than the program.
  const chain::Platform* platform = nullptr;
  /// Bytes that each rank holds throughout: parameters, gradients, optimizer state, the runtime's
  /// own. Empty: none. channel_bytes() is added to them.
  std::vector<Bytes> static_bytes;
  /// A send waits while this many earlier messages of its stream to that rank are not yet received.
  /// At least 1.
  int channel_capacity = 2;
  /// Offloaded bytes of each rank's optimizer state, copied to the device in parts and back at the
  /// end of the step. The step is longer where these copies take longer than the update; it holds
  /// no more bytes than passes do. Not among the static bytes. Empty: none.
  std::vector<Bytes> offloaded_optimizer = {};
  /// Device window for that state where layers have overlapped updates (program::with_updates):
  /// chain::state_parts(), among the static bytes of a rank that has such layers and offloaded
  /// state.
  Bytes update_window = {};
  /// Streamed weights by layer 0..length: in the offload tier of their layer's rank, copied in for
  /// every use of the layer, each with its gradients where it is trained. Their device window,
  /// chain::weights_window(), is among the static bytes. Empty: none.
  std::vector<chain::OffloadWeights> streamed = {};
  int weights_at_once =
      program::kLeastAtOnce;  ///< layers whose streamed weights are on the device at a time
  /// Replicas of the pipeline. With several, streamed gradients are copied in once more to be
  /// summed, which takes its time on the platform's replica_link.
  int replicas = 1;
  /// `replicas` with a sharded optimizer (ZeRO-1): each replica updates its shard of the weights
  /// and sends it to the others. Else 1.
  int optimizer_shards = 1;
  /// The first step of a run: a receiver does not yet know the shape of a layer's output, so it
  /// posts the first receive of a layer only when that action runs; later ones are posted ahead.
  bool is_first_step = false;
  /// By layer 0..length. Empty: all at their usual clock.
  std::vector<LayerClocks> clocks = {};
};

/// Bytes that the transport of `rank` holds in addition to the program's values:
/// platform.channel_buffers times input and gradient of the cuts at either end of the rank's
/// stages; of several cuts that go from one rank to another those of the largest, since they share
/// a stream (docs/memory.md).
Bytes channel_bytes(const Setting& setting, const program::Program& program, int rank);

/// Why sizes could overflow, nothing if they cannot: all values of all micro-batches held at once,
/// plus `fixed` bytes and channel buffers, must stay below 2 EiB.
std::optional<std::string> too_large(const chain::Chain& chain, const chain::Platform& platform,
                                     int micro_batches, Bytes fixed);

/// What is wrong with a program, and where.
struct ProgramFault {
  int rank = -1;          ///< -1: the program as a whole
  std::size_t index = 0;  ///< index of the action in its rank's list; the list's length: its end
  std::optional<program::Action> action;
  std::string reason;

  bool operator==(const ProgramFault&) const = default;
};

/// "rank 1, action 7 (2:backward 3): x[2] is not held".
std::string to_text(const ProgramFault& fault);

/// The first fault, nothing if the program is valid:
/// - every action is on the rank of its layer, and its layer and micro-batch exist;
/// - every value exists where it is used, is made once, is not used while it is offloaded, and is
///   freed by the end; every copy out comes before its copy in;
/// - both ends of every stream name the same messages in the same order (outputs and gradients
///   between two ranks are a stream each), and nothing sent stays unreceived;
/// - there is no deadlock, where sends wait as Setting::channel_capacity says and a copy out waits
///   until messages that may still read its bytes are gone, also in the first step;
/// - every micro-batch runs every layer, reads its loss once and, where the program trains, runs
///   every backward once;
/// - the actions that end a step are on every rank, complete and last, or on none;
/// - every layer is updated once; updates of single layers are all before the layer's first forward
///   or all after its last backward;
/// - streamed weights and their gradients are on the device where they are used, within their
///   window; what was changed is copied out before it is freed; the device ends with what it began
///   with;
/// - every rank stays within its budget, and its offload tier, with optimizer state and weights,
///   within host + disk. A copy out frees its bytes at once here, since the runtime waits for
///   copies out where memory is short. A copy in takes its bytes at its own action and keeps its
///   place in the offload tier until an action needs the value.
///
/// O(actions).
std::optional<ProgramFault> validate(const program::Program& program, const Setting& setting);

}  // namespace trireme::simulate
