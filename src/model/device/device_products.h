// Linear layers whose weight gradients may be deferred, and whose backward uses the device's own
// kernels, if it has any for these tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <vector>

namespace trireme::model {

/// x [..., I] weight_OI^T + bias_O; bias_O may be undefined. What the backward needs is saved
/// before the product is computed: early-stop recomputation may end there.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight_OI, const at::Tensor& bias_O);

struct LinearWeights {
  at::Tensor weight_OI, bias_O;  ///< bias may be undefined
};
struct NormWeights {
  at::Tensor weight_C, bias_C;  ///< without a bias it is an RMS norm
  double epsilon = 0;
};

/// Whether the device has kernels for own_norm_linears of these.
bool has_own_norm_linears(const at::Tensor& x, const NormWeights& norm,
                          const std::vector<LinearWeights>& linears);
/// The output of each linear layer applied to the norm of x, then x for its other uses. Unless it
/// `keeps_result` the backward recomputes the norm's result, once for all.
std::vector<at::Tensor> own_norm_linears(const at::Tensor& x, const NormWeights& norm,
                                         const std::vector<LinearWeights>& linears,
                                         bool keeps_result);

/// Splits x [B, T, C] into its three thirds, as views [B, T, heads, C / 3 / heads]. If the device
/// has a kernel for it, backward concatenates their gradients and computes the bias gradient's
/// partial sums in the same pass.
std::vector<at::Tensor> queries_keys_values(const at::Tensor& x_BTC, std::int64_t heads);

struct GeluKind {
  bool is_tanh = false;
  bool keeps_result = true;  ///< else the backward recomputes gelu(h) at no extra cost
};

/// Whether the device has kernels for own_gelu_linear of these.
bool has_own_gelu_linear(const at::Tensor& h, const at::Tensor& weight_OI,
                         const at::Tensor& bias_O);
/// linear(gelu(h), weight_OI, bias_O).
at::Tensor own_gelu_linear(at::Tensor h, const at::Tensor& weight_OI, const at::Tensor& bias_O,
                           GeluKind kind);

}  // namespace trireme::model
