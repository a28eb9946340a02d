// Frozen weights whose bytes in a checkpoint are damaged: read again from what the run began with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "saved/checkpoint_reader.h"
#include "state/stage.h"

#include "trireme/config/job.h"

#include <ATen/core/Tensor.h>

#include <string>

namespace trireme::runtime {

/// Fills `value` with the initial value of a parameter of the stage from the job's `model.weights`.
/// Returns false, with `value` untouched, if there are none or they are not what the checkpoint had
/// under the name `saved`.
bool read_as_begun(const config::JobSpec& job, const Stage& stage, const StageParameter& parameter,
                   const CheckpointReader& source, const std::string& saved,
                   const at::Tensor& value);

}  // namespace trireme::runtime
