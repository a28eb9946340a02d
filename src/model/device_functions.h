// Norms and rotary positions by a device's own kernels, as far as there are any for these tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <optional>

namespace trireme::model {

struct NormAndInput {
  at::Tensor y, x;
};

/// Layer norm over the last dimension of x. Where x is used further on and the result's x is used
/// for that, its gradient is added to the norm's in one go.
NormAndInput layer_norm_with_input(const at::Tensor& x, const at::Tensor& weight_C,
                                   const at::Tensor& bias_C, double epsilon);

/// The same for an RMS norm.
NormAndInput rms_norm_with_input(const at::Tensor& x, const at::Tensor& weight_C, double epsilon);

/// As far as the device has a kernel for it.
std::optional<NormAndInput> own_rms_norm(const at::Tensor& x, const at::Tensor& weight_C,
                                         double epsilon);

/// x [B, T, heads x D] with the pairs (i, i + D / 2) of every head turned by angles whose cosines
/// and sines are [T, 1, D / 2]: [B, T, heads, D]. Keeps the angles alone.
std::optional<at::Tensor> own_turned(const at::Tensor& x, std::int64_t heads,
                                     const at::Tensor& cos_T1I, const at::Tensor& sin_T1I);

}  // namespace trireme::model
