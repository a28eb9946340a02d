// What a layer's parameters weigh beside themselves while a stage lives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/core/units.h"

#include <ATen/core/Tensor.h>

namespace trireme::profile {

/// State that the optimizer holds for one weight: AdamW two moments, SGD a momentum
/// unless that is 0; the master of a weight that is not float32.
Bytes optimizer_bytes(const at::Tensor& weight, const config::OptimizerSpec& optimizer);

/// Of the state of numbers that are updated together, the most: chain::Chain::state_line.
Bytes state_line(const config::TrainSpec& train);

}  // namespace trireme::profile
