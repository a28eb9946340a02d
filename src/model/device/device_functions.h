// Norms and rotary positions with the device's own kernels, if it has any for these tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <optional>

namespace trireme::model {

struct NormAndInput {
  at::Tensor y, x;
};

/// Layer norm over the last dimension of x. If x is also used elsewhere (residual) by way of the
/// returned x, that gradient is added inside the norm's backward kernel.
NormAndInput layer_norm_with_input(const at::Tensor& x, const at::Tensor& weight_C,
                                   const at::Tensor& bias_C, double epsilon);

/// The same for RMS norm.
NormAndInput rms_norm_with_input(const at::Tensor& x, const at::Tensor& weight_C, double epsilon);

/// The same; nothing if the device has no kernel for it.
std::optional<NormAndInput> own_rms_norm(const at::Tensor& x, const at::Tensor& weight_C,
                                         double epsilon);

/// Rotary positions: x [B, T, heads x D] with the pairs (i, i + D / 2) of every head rotated by
/// angles whose cosines and sines are [T, 1, D / 2]; returns [B, T, heads, D]. Saves only the
/// angles.
std::optional<at::Tensor> own_turned(const at::Tensor& x, std::int64_t heads,
                                     const at::Tensor& cos_T1I, const at::Tensor& sin_T1I);

}  // namespace trireme::model
