// One layer under measurement.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/device/marks.h"
#include "trireme/model/gradient_sums.h"
#include "trireme/model/taped.h"
#include "trireme/tier/device_memory.h"

#include <functional>

namespace trireme::profile {

/// A layer with what it is run on, and where the gradients of its parameters add up.
struct Subject {
  model::Layer& layer;
  model::GradientSums& gradients;
  const model::Values& input;
  const model::Context& context;
  model::Precision precision{};
  model::InputGradient input_gradient{};
};

/// Bytes of all distinct storages behind `values`.
Bytes held_by(const model::Values& values);

/// Runs the layer forward and backward once for warmth and once for `cost`: its output, tape,
/// retape (none where the graph of a forward holds tensors that hooks do not see), transients, and
/// its backward in two parts (none where the first leaves nothing for the second).
/// Returns the output. The calling thread's tensors must count on `account`.
model::Values measure_bytes(const Subject& subject, tier::DeviceMemory& account,
                            chain::LayerCost& cost);

/// How long one layer's runs are repeated.
struct Sampling {
  Seconds least_time{0};
  int least_runs = 1;
  std::function<void()> between;  ///< called between runs; may throw
  Bytes touched;                  ///< by a step between two runs of the layer
};

/// Sets the medians of `forward` (taped), `backward` and, where there are such, of the retape and
/// the second part of the backward, timed by `marks`. Runs find caches as in training (ColdCaches),
/// and follow each other so, too: the host does not wait for the device between them.
void measure_times(const Subject& subject, device::Marks& marks, const Sampling& sampling,
                   chain::LayerCost& cost);

}  // namespace trireme::profile
