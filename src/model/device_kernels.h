// Operators that a device may have kernels of its own for, beside LibTorch's: library "trireme" of
// LibTorch's dispatcher, which libtrireme_cuda.so fills where there is a GPU. Every function says
// whether such a kernel is there for these tensors; if not, nothing has been done.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/TensorBody.h>

#include <optional>

namespace trireme::model {

/// Of each row of `logits_NV`, the logarithm of the softmax at its target: float32 [N]. With
/// `gradients` the logits become the softmax, less 1 at the target.
std::optional<at::Tensor> device_log_likelihood(at::Tensor& logits_NV, const at::Tensor& target_N,
                                                bool gradients);

/// [N, C] to [C].
std::optional<at::Tensor> device_column_sums(const at::Tensor& x_NC);

struct NormGradients {
  at::Tensor x, weight, bias;
};

/// Of y = h weight + bias with h = (x - mean) scale, for the gradient dy of y. x and dy: [..., C];
/// means and scales, float32: one per row.
std::optional<NormGradients> device_layer_norm_backward(const at::Tensor& dy, const at::Tensor& x,
                                                        const at::Tensor& means,
                                                        const at::Tensor& scales,
                                                        const at::Tensor& weight_C);

/// sum, in float32, += x; with `is_first` sum = x.
bool device_accumulate(at::Tensor& sum, const at::Tensor& x, bool is_first);

}  // namespace trireme::model
