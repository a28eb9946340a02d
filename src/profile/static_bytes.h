// What a layer's parameters weigh beside themselves while a stage lives.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/core/units.h"
#include "trireme/model/layer.h"

namespace trireme::profile {

/// State that the optimiser holds for one parameter: AdamW two moments and a step, SGD a momentum
/// unless that is 0.
Bytes optimizer_bytes(const model::Parameter& parameter, const config::OptimizerSpec& optimizer);

}  // namespace trireme::profile
