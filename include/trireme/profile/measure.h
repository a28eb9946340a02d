// Profiler: measures the costs of a chain's layers on this machine by running each layer alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/config/job.h"
#include "trireme/core/units.h"
#include "trireme/device/meter.h"
#include "trireme/device/place.h"
#include "trireme/model/chain.h"
#include "trireme/tier/device_memory.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::profile {

/// Whether targets may be masked, which takes a few bytes more: those of documents; and those of
/// models with code of their own whose loss supports it, since a program may hand its data over
/// later.
bool may_be_masked(const config::JobSpec& job, const model::ChainModel& model);

struct MeasureOptions {
  int threads = 1;
  /// A layer's forward and backward are repeated for at least this time in total and at least this
  /// many runs.
  Seconds least_time{0.2};
  int least_runs = 5;
  /// If `shares` processes measure together, process number `share` times only the layers whose
  /// turn it is; the times of the others stay 0 (all measure bytes: they cost one run). The sum
  /// over shares is complete.
  int share = 0, shares = 1;
  std::function<bool()> stop_requested = {};   ///< asked between runs
  const device::Place& place = device::cpu();  ///< device to measure
  /// The place's memory, used by nothing else meanwhile; null: an account for the CPU.
  tier::DeviceMemory* memory = nullptr;
  /// What counts this device's energy, and nothing else's meanwhile, so that `shares` is 1; null:
  /// joules are not measured. A layer runs for `metered_time` forward, and as long forward and
  /// backward.
  device::Meter* meter = nullptr;
  Seconds metered_time{1};
  /// Called after layer `number` of 1..L; `measured` is false if an equal layer's costs were
  /// reused.
  std::function<void(int number, const chain::LayerCost& cost, bool measured)> progress = {};
  /// Called with remarks for readers of the costs.
  std::function<void(const std::string& text)> note = {};
};

/// Costs of every layer at the job's micro-batch size and precision, on random input.
///
/// Bytes are exact: counted by the counting allocator while the layer runs as in the executor
/// (model/taped.h), after a warm-up run. `parameters` are all bytes that the built layer holds,
/// buffers included; `gradients` and `optimizer` are what the runtime will hold for them. A tied
/// weight counts with each of its uses: see TiedWeights. What has no field in a chain is counted
/// where it can only make a prediction slightly too high: the copy of a layer's buffers that a
/// recomputed forward holds counts with the transients of every forward, the target with the last
/// layer's tape and, since it is loaded earlier, also with its parameters.
///
/// Joules are times by the mean power while the layer runs again and again, with warm caches.
///
/// Times are medians; `forward` is a taped one. Layers of one kind (LayerRecipe::kind) with inputs
/// of one shape are measured once. A layer from a file (LayerRecipe::may_vary) also runs on inputs
/// of equal values; if its tensors are larger then, these bytes count. Holds one layer with its
/// input, output and tape at a time.
///
/// Installs the counting allocator. Throws Interrupted when asked to stop.
chain::Chain measure(const model::ChainModel& model, const config::JobSpec& job,
                     const MeasureOptions& options);

}  // namespace trireme::profile
