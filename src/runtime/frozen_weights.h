// Frozen weights of which a checkpoint has lost the bytes: they are what the run began with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "checkpoint_reader.h"

#include "trireme/config/job.h"
#include "trireme/runtime/stage.h"

#include <ATen/core/Tensor.h>

#include <string>

namespace trireme::runtime {

/// Fills `value` with what a parameter of the stage begins with by the job's `model.weights`.
/// False where there are none, or they are not what the checkpoint had under the name `saved`;
/// `value` is untouched then.
bool read_as_begun(const config::JobSpec& job, const Stage& stage, const StageParameter& parameter,
                   const CheckpointReader& source, const std::string& saved,
                   const at::Tensor& value);

}  // namespace trireme::runtime
