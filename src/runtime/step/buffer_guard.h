// Undoes what a recomputed forward does to buffers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/layer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <exception>
#include <utility>
#include <vector>

namespace trireme::runtime {

/// Undoes the changes of a recomputed forward to a layer's buffers, so that statistics are updated
/// once. Writes past the version counter: another micro-batch's tape may have saved the buffer
/// without using its values.
class BufferGuard {
 public:
  BufferGuard(const model::Layer& layer, bool repeated) {
    if (!repeated) return;
    for (const model::Buffer& buffer : layer.buffers())
      saved_.emplace_back(buffer.value, buffer.value.clone());
  }
  ~BufferGuard() {
    const at::NoGradGuard no_grad;
    try {
      for (const auto& [buffer, before] : saved_) buffer.variable_data().copy_(before);
    } catch (const std::exception&) {  // the device is lost; the forward has reported it
    }
  }
  BufferGuard(const BufferGuard&) = delete;
  BufferGuard& operator=(const BufferGuard&) = delete;

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> saved_;
};

}  // namespace trireme::runtime
