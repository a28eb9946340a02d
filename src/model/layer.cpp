// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/layer.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

namespace trireme::model {

at::Tensor Layer::add_parameter(std::string name, const at::Tensor& initial, std::string tie) {
  for (const Parameter& other : parameters_) {
    ensure(other.name != name, concat("two parameters of one layer are called '", name, "'"));
  }
  at::Tensor value = initial.detach().contiguous().requires_grad_();
  parameters_.push_back({std::move(name), value, std::move(tie)});
  return value;
}

at::Tensor Layer::add_buffer(std::string name, const at::Tensor& initial) {
  at::Tensor value = initial.detach().contiguous();
  buffers_.push_back({std::move(name), value});
  return value;
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
