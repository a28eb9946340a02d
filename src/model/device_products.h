// Linear layers whose backward uses a device's own kernels, as far as there are any for these
// tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

namespace trireme::model {

/// x [..., I] weight_OI^T + bias_O; without a bias, undefined. What the backward needs is saved
/// before the product is computed: a layer that is run again for its tape may end there.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight_OI, const at::Tensor& bias_O);

struct GeluKind {
  bool is_tanh = false;
  bool keeps_result =
      true;  ///< else the backward makes gelu(h) again, which costs nothing beside it
};

/// Whether the device has kernels of its own for gelu_linear of these.
bool has_own_gelu_linear(const at::Tensor& h, const at::Tensor& weight_OI,
                         const at::Tensor& bias_O);
/// linear(gelu(h), weight_OI, bias_O).
at::Tensor own_gelu_linear(at::Tensor h, const at::Tensor& weight_OI, const at::Tensor& bias_O,
                           GeluKind kind);

}  // namespace trireme::model
