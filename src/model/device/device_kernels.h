// Operators for which a device may have its own kernels, in addition to LibTorch's: library
// "trireme" of LibTorch's dispatcher, which libtrireme_cuda.so registers on machines with a GPU.
// Every function reports whether it has a kernel for these tensors; if not, it does nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/model/update.h"

#include <ATen/core/TensorBody.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace trireme::model {

/// Log-softmax of each row of `logits_NV` at its target: float32 [N]. With `gradients` the logits
/// are overwritten with the softmax, less 1 at the target.
std::optional<at::Tensor> device_log_likelihood(at::Tensor& logits_NV, const at::Tensor& target_N,
                                                bool gradients);

/// Partial sums of x's columns, still to be summed over rows: float32 [parts, C].
std::optional<at::Tensor> device_column_parts(const at::Tensor& x_NC);

struct SideBySide {
  at::Tensor y, parts;
};
/// Concatenates three x of the same sizes [..., C] into y [..., 3 C]; also returns y's
/// device_column_parts.
std::optional<SideBySide> device_side_by_side(const at::Tensor& x0, const at::Tensor& x1,
                                              const at::Tensor& x2);

/// `sums` [C], float32, += the sum over rows of `parts` [P, at least begin + C], from column
/// `begin` on; with `is_first` overwrites `sums`, in float32 or bfloat16.
struct PartSum {
  at::Tensor sums, parts;
  std::int64_t begin = 0;
  bool is_first = false;
};
/// Does all of them in one launch: no two may have the same sums.
void device_sum_parts(const std::vector<PartSum>& all);

/// Whether device_norm supports these; without a bias it is an RMS norm.
bool has_device_norm(const at::Tensor& x, const at::Tensor& weight_C, const at::Tensor& bias_C);

struct Normed {
  at::Tensor y, means, scales;  ///< means, scales: float32, per row; an RMS norm has no means
};

/// y = h weight + bias with h = (x - mean) scale and scale = 1 / sqrt(variance + epsilon), over the
/// last dimension of x [..., C]. For an RMS norm y = h weight with h = x scale and scale = 1 /
/// sqrt(mean of x^2 + epsilon).
std::optional<Normed> device_norm(const at::Tensor& x, const at::Tensor& weight_C,
                                  const at::Tensor& bias_C, double epsilon);

/// Saved tensors of a norm.
struct NormTape {
  at::Tensor x, weight_C, bias_C;  ///< bias undefined for an RMS norm
  Normed normed;                   ///< without y
};

struct NormGradient {
  at::Tensor of_x;
  at::Tensor y;      ///< the result, recomputed with the same bits, if requested
  at::Tensor parts;  ///< partial sums of the weight's gradient, then the bias's
};

enum class NormResult { kNotAgain, kAgain };
/// Backward for the gradient dy of y; `more`, unless undefined, is added to the gradient of x. With
/// `into_dy` the result overwrites dy.
NormGradient device_norm_backward(at::Tensor dy, const NormTape& tape, const at::Tensor& more,
                                  NormResult result, bool into_dy);

/// Rotary positions: x [B, T, heads x D] with the pairs (i, i + D / 2) of every head rotated by
/// angles whose cosines and sines are [T, ..., D / 2] in float32; with `back` by the opposite
/// angles.
std::optional<at::Tensor> device_turn(const at::Tensor& x, const at::Tensor& cosines,
                                      const at::Tensor& sines, std::int64_t heads, bool back);

/// Whether the next two functions support x.
bool has_device_gelu(const at::Tensor& x);
/// GELU, exact or with the tanh approximation.
at::Tensor device_gelu(const at::Tensor& x, bool is_tanh);

struct GeluGradient {
  at::Tensor y;      ///< the result, recomputed with the same bits, if requested
  at::Tensor parts;  ///< partial sums of the gradient's columns
};
/// Overwrites dy, the gradient of device_gelu's result, with the gradient of x.
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

/// AdamW step including the rounding of weights: see model::update.
bool device_adamw(const UpdateGroup& group, const config::OptimizerSpec& spec, double rate,
                  std::int64_t step, const at::Tensor& divisor);

}  // namespace trireme::model
