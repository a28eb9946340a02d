// SPDX-License-Identifier: Apache-2.0
#include "saved/frozen_weights.h"

#include "saved/weights_reader.h"

#include "trireme/core/error.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace trireme::runtime {

bool read_as_begun(const config::JobSpec& job, const Stage& stage, const StageParameter& parameter,
                   const CheckpointReader& source, const std::string& saved,
                   const at::Tensor& value) {
  if (job.weights.empty()) return false;
  const at::Tensor host = at::empty(value.sizes(), at::TensorOptions(value.scalar_type()));
  const std::string& layer = stage.layer_name(parameter.layer);
  try {
    const WeightsReader begun(job.weights, job.model);
    begun.read(layer, parameter.name.substr(layer.size() + 1), host);
  } catch (const InputError&) {
    return false;
  }
  if (!source.has_written(saved, host)) return false;
  const at::NoGradGuard no_grad;
  value.copy_(host);
  return true;
}

}  // namespace trireme::runtime
