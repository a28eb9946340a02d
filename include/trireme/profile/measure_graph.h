// Profiler of models that are graphs: measures the costs of every value on this machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/core/units.h"
#include "trireme/graph/graph.h"
#include "trireme/model/chain.h"
#include "trireme/profile/measure.h"

namespace trireme::profile {

/// A training step of one micro-batch, and what is held besides.
struct GraphCosts {
  /// Node 0 is the input, 1..L the layers, later ones the gradients in the order of
  /// model::gradient_nodes(), with measured times and exact bytes.
  graph::Graph graph;
  /// Held all the time: parameters and buffers, gradients, optimizer state, the target, and the
  /// loss with its gradient.
  Bytes fixed;
  /// What layers save for their backward besides inputs and outputs, all layers together: held
  /// until the micro-batch ends.
  Bytes kept;
  Seconds update{0};  ///< of the optimizer step
};

/// Measures as measure() does, of which the options are (all but `progress` and shares): layers of
/// one kind with inputs of one shape once, bytes by the counting allocator, times as medians of
/// warm runs with cold caches. A node's transient bytes are the most that its first and later
/// computations take besides its output. `told(number)` is called after each layer that was
/// measured. Throws as measure() does, and InputError for a layer that returns several tensors.
GraphCosts measure_graph(const model::ChainModel& model, const config::JobSpec& job,
                         const MeasureOptions& options,
                         const std::function<void(int number)>& told = {});

}  // namespace trireme::profile
