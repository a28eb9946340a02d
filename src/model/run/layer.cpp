// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/layer.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <ATen/core/grad_mode.h>

namespace trireme::model {

at::Tensor Layer::add_parameter(std::string name, const at::Tensor& initial, std::string tie) {
  return add({.name = std::move(name), .value = initial, .tie = std::move(tie)});
}

at::Tensor Layer::add_float32_parameter(std::string name, const at::Tensor& initial) {
  return add({.name = std::move(name), .value = initial, .tie = {}, .stays_float32 = true});
}

at::Tensor Layer::add(Parameter parameter) {
  for (const Parameter& other : parameters_) {
    ensure(other.name != parameter.name,
           concat("two parameters of one layer are called '", parameter.name, "'"));
  }
  parameter.value = parameter.value.detach().contiguous().requires_grad_();
  return parameters_.emplace_back(std::move(parameter)).value;
}

at::Tensor Layer::add_buffer(std::string name, const at::Tensor& initial, bool is_saved) {
  at::Tensor value = initial.detach().contiguous();
  buffers_.push_back({std::move(name), value, is_saved});
  return value;
}

void Layer::train_only(const std::function<bool(const Parameter&)>& is_wanted) {
  for (Parameter& parameter : parameters_) {
    if (is_wanted(parameter)) continue;
    parameter.is_trained = false;
    parameter.value.requires_grad_(false);
  }
}

void move_to(c10::Device device, Layer& layer) {
  if (device.is_cpu()) return;
  const at::NoGradGuard no_grad;
  const auto move = [&](at::Tensor tensor) {
    tensor.set_data(tensor.variable_data().to(device, tensor.scalar_type()));
  };
  for (const Parameter& parameter : layer.parameters()) move(parameter.value);
  for (const Buffer& buffer : layer.buffers()) move(buffer.value);
}

}  // namespace trireme::model
