// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/precision.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/model/layer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace trireme::model {

Precision precision_of(const std::string& name) {
  if (name == "float32") return Precision::kFloat32;
  if (name == "bfloat16") return Precision::kBfloat16;
  ensure(name == "bfloat16_weights", concat("'", name, "' is a precision"));
  return Precision::kBfloat16Weights;
}

namespace {

bool is_lowered(const Parameter& parameter, Precision precision) {
  return precision == Precision::kBfloat16Weights && !parameter.stays_float32;
}

}  // namespace

void lower_frozen(Layer& layer, Precision precision) {
  const at::NoGradGuard no_grad;
  for (const Parameter& parameter : layer.parameters()) {
    if (parameter.is_trained || !is_lowered(parameter, precision)) continue;
    at::Tensor value = parameter.value;
    value.set_data(value.variable_data().to(at::kBFloat16));
  }
}

std::vector<at::Tensor> lower_weights(Layer& layer, Precision precision) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> masters;
  for (const Parameter& parameter : layer.parameters()) {
    at::Tensor value = parameter.value;
    const at::Tensor master = value.detach();  // an update counts as a change of the weight
    if (is_lowered(parameter, precision)) value.set_data(value.variable_data().to(at::kBFloat16));
    masters.push_back(parameter.is_trained ? master : value.detach());
  }
  return masters;
}

}  // namespace trireme::model
