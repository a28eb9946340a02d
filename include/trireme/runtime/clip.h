// Clipping of the gradients' global norm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/runtime/late_scalars.h"
#include "trireme/runtime/reducer.h"
#include "trireme/runtime/stage.h"

namespace trireme::runtime {

/// Every rank of a pipeline: where the norm over all parameters of the chain is above `limit`,
/// scales this rank's gradients by limit / norm. The norm becomes value 0 of `norms`.
///
/// On CPU the norm has the same bits for every number of threads, splits and replicas. Elsewhere
/// it is computed on the device and the host waits for other ranks at most.
void clip_gradients(Reducer& reducer, Stage& stage, double limit, LateScalars& norms);

/// What clip_gradients does where the stage is not on CPU; for stages on CPU, too.
void clip_on_device(Reducer& reducer, Stage& stage, double limit, LateScalars& norms);

}  // namespace trireme::runtime
