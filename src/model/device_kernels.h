// Operators that a device may have kernels of its own for, beside LibTorch's: library "trireme" of
// LibTorch's dispatcher, which libtrireme_cuda.so fills where there is a GPU. Every function says
// whether such a kernel is there for these tensors; if not, nothing has been done.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/update.h"

#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace trireme::model {

/// Of each row of `logits_NV`, the logarithm of the softmax at its target: float32 [N]. With
/// `gradients` the logits become the softmax, less 1 at the target.
std::optional<at::Tensor> device_log_likelihood(at::Tensor& logits_NV, const at::Tensor& target_N,
                                                bool gradients);

/// What is still to be added up, over its rows, for the sums of x's columns: float32 [parts, C].
std::optional<at::Tensor> device_column_parts(const at::Tensor& x_NC);

struct SideBySide {
  at::Tensor y, parts;
};
/// Three x of the same sizes [..., C], side by side: y [..., 3 C], and device_column_parts of it.
std::optional<SideBySide> device_side_by_side(const at::Tensor& x0, const at::Tensor& x1,
                                              const at::Tensor& x2);

/// `sums` [C], in float32, += what the rows of such `parts` [P, at least begin + C] come to from
/// column `begin` on; with `is_first` sums = that, in float32 or bfloat16.
struct PartSum {
  at::Tensor sums, parts;
  std::int64_t begin = 0;
  bool is_first = false;
};
/// All of them at once: no two have the same sums.
void device_sum_parts(const std::vector<PartSum>& all);

/// Whether device_norm takes these; without a bias it is an RMS norm.
bool has_device_norm(const at::Tensor& x, const at::Tensor& weight_C, const at::Tensor& bias_C);

struct Normed {
  at::Tensor y, means, scales;  ///< one of the latter per row, float32; an RMS norm has no means
};

/// y = h weight + bias with h = (x - mean) scale and scale = 1 / sqrt(variance + epsilon), over the
/// last dimension of x [..., C]. Of an RMS norm y = h weight with h = x scale and scale = 1 /
/// sqrt(mean of x^2 + epsilon).
std::optional<Normed> device_norm(const at::Tensor& x, const at::Tensor& weight_C,
                                  const at::Tensor& bias_C, double epsilon);

/// What the backward of a norm is about.
struct NormTape {
  at::Tensor x, weight_C, bias_C;  ///< the latter undefined for an RMS norm
  Normed normed;                   ///< without y
};

struct NormGradient {
  at::Tensor of_x;
  at::Tensor y;      ///< the result, made again with the same bits, if it was wanted
  at::Tensor parts;  ///< of the weight's gradient, and of the bias's after them
};

enum class NormResult { kNotAgain, kAgain };
/// For the gradient dy of y; `more`, unless undefined, is added to the gradient of x. With
/// `into_dy` this stands where dy was.
NormGradient device_norm_backward(at::Tensor dy, const NormTape& tape, const at::Tensor& more,
                                  NormResult result, bool into_dy);

/// x [B, T, heads x D] with the pairs (i, i + D / 2) of every head turned by angles whose cosines
/// and sines are [T, ..., D / 2] in float32; with `back` by the opposite angles.
std::optional<at::Tensor> device_turn(const at::Tensor& x, const at::Tensor& cosines,
                                      const at::Tensor& sines, std::int64_t heads, bool back);

/// Whether the two that follow take it.
bool has_device_gelu(const at::Tensor& x);
/// GELU, the exact one or that with a tanh.
at::Tensor device_gelu(const at::Tensor& x, bool is_tanh);

struct GeluGradient {
  at::Tensor y;      ///< the result, made again with the same bits, if it was wanted
  at::Tensor parts;  ///< of the sums of the gradient's columns
};
/// dy, of any such result, becomes the gradient of x.
GeluGradient device_gelu_backward(at::Tensor& dy, const at::Tensor& x, bool is_tanh, bool again);

/// silu(gate) up.
std::optional<at::Tensor> device_swiglu(const at::Tensor& gate, const at::Tensor& up);

struct SwigluGradients {
  at::Tensor gate, up;
};
std::optional<SwigluGradients> device_swiglu_backward(const at::Tensor& dy, const at::Tensor& gate,
                                                      const at::Tensor& up);

/// sum, in float32, += x; with `is_first` sum = x.
bool device_accumulate(at::Tensor& sum, const at::Tensor& x, bool is_first);

/// sum_OI, in float32, += dy^T x, which is never rounded to bfloat16; with `is_first` sum = dy^T x.
bool device_add_product(at::Tensor& sum_OI, const at::Tensor& dy_NO, const at::Tensor& x_NI,
                        bool is_first);

/// The update of AdamW with what follows it, rounded weights: model::update.
bool device_adamw(const UpdateGroup& group, const config::OptimizerSpec& spec, double rate,
                  std::int64_t step, const at::Tensor& divisor);

}  // namespace trireme::model
