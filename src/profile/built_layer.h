// A layer that is measured, with what a rank holds of it between steps.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/chain/chain.h"
#include "trireme/config/job.h"
#include "trireme/model/chain.h"
#include "trireme/model/gradient_sums.h"
#include "trireme/tier/device_memory.h"

#include <c10/core/Device.h>

#include <memory>
#include <optional>

namespace trireme::profile {

struct BuiltLayer {
  std::unique_ptr<model::Layer> layer;
  std::optional<model::GradientSums> gradients;
};

struct LayerToBuild {
  const model::ChainModel& model;
  const config::JobSpec& job;
  int number = 1;  ///< of the layer, from 1
  c10::Device device;
  tier::DeviceMemory& memory;  ///< on which the calling thread's tensors count
};

/// Builds a layer and records its static bytes in `cost`.
BuiltLayer build_layer(const LayerToBuild& what, chain::LayerCost& cost);

}  // namespace trireme::profile
