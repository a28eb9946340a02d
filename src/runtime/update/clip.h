// Gradient clipping by global norm.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "state/stage.h"
#include "update/late_scalars.h"
#include "update/reducer.h"

namespace trireme::runtime {

/// Collective over a pipeline: returns the number that gradients are to be divided by so that their
/// norm over all parameters of the chain is at most `limit`: a float32 scalar on the stage's
/// device, 1 if the norm is within the limit. The norm becomes value 0 of `norms`.
///
/// On CPU the norm has the same bits for every number of threads, splits and replicas. Elsewhere it
/// is computed on the device, and the host waits for nothing but other ranks.
at::Tensor clip_divisor(Reducer& reducer, const Stage& stage, double limit, LateScalars& norms);

/// The device path of clip_divisor(); also works for stages on CPU.
at::Tensor clip_divisor_on_device(Reducer& reducer, double limit, LateScalars& norms);

}  // namespace trireme::runtime
