// Clipping of the gradients' global norm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/runtime/late_scalars.h"
#include "trireme/runtime/reducer.h"
#include "trireme/runtime/stage.h"

namespace trireme::runtime {

/// Every rank of a pipeline: what gradients are to be divided by so that their norm over all
/// parameters of the chain is `limit` at most: a float32 number on the stage's device, 1 where it
/// is so anyway. The norm becomes value 0 of `norms`.
///
/// On CPU the norm has the same bits for every number of threads, splits and replicas. Elsewhere
/// it is computed on the device and the host waits for other ranks at most.
at::Tensor clip_divisor(Reducer& reducer, const Stage& stage, double limit, LateScalars& norms);

/// What clip_divisor gives where the stage is not on CPU; for stages on CPU, too.
at::Tensor clip_divisor_on_device(Reducer& reducer, double limit, LateScalars& norms);

}  // namespace trireme::runtime
