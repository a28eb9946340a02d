// Bytes and digests of tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/core/digest.h"
#include "trireme/core/text.h"

#include <ATen/core/Tensor.h>

#include <string>

namespace trireme::runtime {

/// The bytes of a contiguous tensor, valid while it lives.
inline comm::ConstBytes bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

inline comm::MutableBytes writable_bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

/// Digest of sizes and values, on whatever device they are.
inline std::string digest_of(const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().cpu().contiguous();
  return digest(concat(host.sizes(), digest(host.const_data_ptr(), host.nbytes())));
}

}  // namespace trireme::runtime
