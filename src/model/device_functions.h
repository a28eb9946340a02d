// Linear layers and layer norms whose backward asks for a device's own kernels. With tensors for
// which there are none they are LibTorch's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

namespace trireme::model {

/// x [..., I] weight_OI^T + bias_O; without a bias, undefined.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight_OI, const at::Tensor& bias_O);

/// Over the last dimension of x.
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight_C, const at::Tensor& bias_C,
                      double epsilon);

struct NormAndInput {
  at::Tensor y, x;
};

/// The same for an x that is used further on: where the result's x is used for that, its gradient
/// is added to the norm's in one go.
NormAndInput layer_norm_with_input(const at::Tensor& x, const at::Tensor& weight_C,
                                   const at::Tensor& bias_C, double epsilon);

}  // namespace trireme::model
