// Measures the costs of one layer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/device/marks.h"
#include "trireme/device/meter.h"
#include "trireme/model/gradient_sums.h"
#include "trireme/model/taped.h"
#include "trireme/tier/device_memory.h"

#include <functional>
#include <vector>

namespace trireme::profile {

/// A layer with its input and context, and the sums of its parameters' gradients.
struct Subject {
  model::Layer& layer;
  model::GradientSums& gradients;
  const model::Values& input;
  const model::Context& context;
  model::Precision precision{};
  model::InputGradient input_gradient{};
};

/// Bytes of all distinct storages of `values`.
Bytes held_by(const model::Values& values);
/// Bytes of storages, each of which is there once.
Bytes held_by(const std::vector<c10::Storage>& storages);
/// Bytes of the copy of a layer's buffers that a recomputed forward holds, so that their change can
/// be undone.
Bytes buffer_copies(const model::Layer& layer);

/// Value of output gradients; any that neither vanishes nor overflows in the backward.
inline constexpr double kGradient = 1e-3;
/// The same random numbers in every run.
void rewind(const model::Context& context);
double median(std::vector<double> values);

/// Runs the layer forward and backward once to warm up and once to measure `cost`: its output,
/// tape, what of it stays where it is offloaded, retape (none if the graph of a forward holds
/// tensors that bypass hooks), transients, and its split backward (none if the first part defers
/// nothing). Returns the output. The calling thread's tensors must count on `account`.
model::Values measure_bytes(const Subject& subject, tier::DeviceMemory& account,
                            chain::LayerCost& cost);

/// How often one layer's runs are repeated.
struct Sampling {
  Seconds least_time{0};
  int least_runs = 1;
  std::function<void()> between;  ///< called between runs; may throw
  Bytes touched;                  ///< by a step, between two runs of the layer
};

/// Sets the median times of `forward` (taped), `backward` and, if any, of the retape and the second
/// part of the backward, timed by `marks`. Caches are cold as in training (ColdCaches), and runs
/// are queued back to back as in training: the host does not wait for the device between them.
void measure_times(const Subject& subject, device::Marks& marks, const Sampling& sampling,
                   chain::LayerCost& cost);

/// Sets the joules of `forward` and `backward`, whose times are known: these times by the mean
/// power while the layer runs forward, and forward and backward, for at least the sampling's time
/// each, with warm caches. Sets nothing where the meter cannot be read or stands still.
void measure_energy(const Subject& subject, device::Marks& marks, device::Meter& meter,
                    const Sampling& sampling, chain::LayerCost& cost);

}  // namespace trireme::profile
