// Linear layers whose weights' gradients may be left for later, and whose backward uses a device's
// own kernels, as far as there are any for these tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <vector>

namespace trireme::model {

/// x [..., I] weight_OI^T + bias_O; without a bias, undefined. What the backward needs is saved
/// before the product is computed: a layer that is run again for its tape may end there.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight_OI, const at::Tensor& bias_O);

struct LinearWeights {
  at::Tensor weight_OI, bias_O;  ///< the latter may be undefined
};
struct NormWeights {
  at::Tensor weight_C, bias_C;  ///< without the latter it is an RMS norm
  double epsilon = 0;
};

/// Whether the device has kernels of its own for own_norm_linears of these.
bool has_own_norm_linears(const at::Tensor& x, const NormWeights& norm,
                          const std::vector<LinearWeights>& linears);
/// Each linear layer of the norm of x, then x for what it is used for beside them. Unless it
/// `keeps_result` the backward makes the norm's result again, once for all.
std::vector<at::Tensor> own_norm_linears(const at::Tensor& x, const NormWeights& norm,
                                         const std::vector<LinearWeights>& linears,
                                         bool keeps_result);

/// The thirds of x [B, T, C], which stand side by side: views [B, T, heads, C / 3 / heads]. What
/// the gradient of a linear layer's result wants is added up as their gradients are put side by
/// side, if the device has a kernel for that.
std::vector<at::Tensor> queries_keys_values(const at::Tensor& x_BTC, std::int64_t heads);

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
