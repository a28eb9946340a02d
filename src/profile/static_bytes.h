// Static bytes of a layer's parameters in addition to the parameters themselves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/core/units.h"

#include <ATen/core/Tensor.h>

namespace trireme::profile {

/// Optimizer state of one weight: two moments for AdamW, a momentum for SGD unless that is 0; and
/// the master of a weight that is not float32.
Bytes optimizer_bytes(const at::Tensor& weight, const config::OptimizerSpec& optimizer);

/// Optimizer state of kUpdatedTogether numbers, the maximum over weights: chain::Chain::state_line.
Bytes state_line(const config::TrainSpec& train);

}  // namespace trireme::profile
