// Values to measure layers on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/chain.h"

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::profile {

/// Random data in the form that the data set would give.
at::Tensor made_up_input(const model::ChainModel& model, std::int64_t examples, at::Generator from);
model::Values made_up_target(const model::ChainModel& model, const config::JobSpec& job,
                             at::Generator from);
/// Documents (model::Context::documents) that take as many bytes as any that fill these rows: one
/// in each. None if the job does not isolate them.
std::vector<std::int64_t> made_up_documents(const model::ChainModel& model,
                                            const config::JobSpec& job);
/// The same tensors on the meta device.
model::Values without_values(const model::Values& values);
/// Allocates tensors that have no memory and fills them with random values.
void make_up_values(model::Values& values, c10::Device device, const at::Generator& from);
/// Types, sizes and strides.
std::string shape_text(const model::Values& values);

}  // namespace trireme::profile
