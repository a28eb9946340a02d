// Times the optimizer step of one layer's parameters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/core/units.h"
#include "trireme/device/marks.h"
#include "trireme/model/gradient_sums.h"
#include "trireme/model/layer.h"

namespace trireme::profile {

/// Median time of the optimizer step of the layer's parameters and, if the job clips, of the norm
/// of their gradients. Leaves the values unchanged: the learning rate is 0. Timed by `marks`;
/// between two updates a step touches `touched` bytes (ColdCaches).
Seconds measure_update(const model::Layer& layer, const model::GradientSums& gradients,
                       const config::TrainSpec& train, device::Marks& marks, Bytes touched);

}  // namespace trireme::profile
