// What the layers of a chain cost on this machine, measured by running each of them alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/config/job.h"
#include "trireme/core/units.h"
#include "trireme/device/place.h"
#include "trireme/model/chain.h"
#include "trireme/tier/device_memory.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::profile {

struct MeasureOptions {
  int threads = 1;
  /// A layer's forward and backward are repeated until both together took so long, and so often.
  Seconds least_time{0.2};
  int least_runs = 5;
  /// Of `shares` that measure together, this one times every layer whose turn it is; the times of
  /// the others stay 0 (bytes do not: they cost one run). Added up, the shares are whole.
  int share = 0, shares = 1;
  std::function<bool()> stop_requested = {};   ///< asked between runs
  const device::Place& place = device::cpu();  ///< what is measured
  /// The place's memory, used by nobody else meanwhile; null: an account of the CPU's.
  tier::DeviceMemory* memory = nullptr;
  /// Told after layer `number` of 1..L; `measured` is false where an equal layer's costs were
  /// taken.
  std::function<void(int number, const chain::LayerCost& cost, bool measured)> progress = {};
  /// Told of what a reader of the costs should know.
  std::function<void(const std::string& text)> note = {};
};

/// Costs of every layer at the job's micro-batch size and precision, on made-up input.
///
/// Bytes are exact: what the counting allocator saw while the layer did what the executor does with
/// it (model/taped.h), after a first run that warmed everything up. `parameters` are all bytes that
/// the built layer holds, buffers included; `gradients` and `optimizer` what the runtime will hold
/// for them. A tied weight counts with each of its uses: see TiedWeights. Where a chain has no
/// field for something, it is put where it can only make a prediction a little too high: the copy
/// of a layer's buffers that a repeated forward holds counts with the transients of every forward,
/// the target with the last layer's tape and, since it is loaded earlier, with its parameters, too.
///
/// Times are medians; `forward` is a taped one. Layers of one kind (LayerRecipe::kind) with inputs
/// of one shape are measured once. A layer from a file (LayerRecipe::may_vary) also runs on inputs
/// of equal values; where its tensors are larger then, these bytes count. Holds one layer, its
/// input, its output and its tape at a time.
///
/// Installs the counting allocator. Throws Interrupted when asked to stop.
chain::Chain measure(const model::ChainModel& model, const config::JobSpec& job,
                     const MeasureOptions& options);

}  // namespace trireme::profile
