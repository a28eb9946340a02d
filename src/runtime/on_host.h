// Values of a tensor where the host computes with them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <span>

namespace trireme::runtime {

/// The tensor itself on CPU, else a copy that is waited for.
class OnHost {
 public:
  explicit OnHost(const at::Tensor& tensor) : tensor_(tensor.detach()), host_(tensor_.cpu()) {}

  std::span<float> floats() const {
    return {host_.data_ptr<float>(), static_cast<std::size_t>(host_.numel())};
  }
  const void* data() const { return host_.const_data_ptr(); }
  /// What was written becomes the tensor's.
  void put_back() {
    if (!tensor_.is_cpu()) tensor_.copy_(host_);
  }

 private:
  at::Tensor tensor_, host_;
};

}  // namespace trireme::runtime
