// Schemas of the fused GPU operators for LibTorch's dispatcher: library "trireme".
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::kernels {

inline constexpr const char* kLogLikelihood =
    "log_likelihood_(Tensor(a!) logits, Tensor target, bool gradients) -> Tensor";
inline constexpr const char* kColumnParts = "column_parts(Tensor x) -> Tensor";
inline constexpr const char* kSumParts =
    "sum_parts_(Tensor(a!)[] sums, Tensor[] parts, int[] begins, bool[] is_first) -> ()";
inline constexpr const char* kSideBySide =
    "side_by_side(Tensor x0, Tensor x1, Tensor x2) -> (Tensor, Tensor)";
inline constexpr const char* kLayerNorm =
    "layer_norm(Tensor x, Tensor weight, Tensor bias, float epsilon) -> (Tensor, Tensor, Tensor)";
inline constexpr const char* kRmsNorm =
    "rms_norm(Tensor x, Tensor weight, float epsilon) -> (Tensor, Tensor)";
inline constexpr const char* kNormBackward =
    "norm_backward(Tensor dy, Tensor x, Tensor? means, Tensor scales, Tensor weight, Tensor? bias, "
    "Tensor? more, Tensor(a!) dx, bool again) -> (Tensor, Tensor)";
inline constexpr const char* kTurn =
    "turn(Tensor x, Tensor cosines, Tensor sines, int heads, bool back) -> Tensor";
inline constexpr const char* kGelu = "gelu(Tensor x, bool is_tanh) -> Tensor";
inline constexpr const char* kGeluBackward =
    "gelu_backward_(Tensor(a!) dy, Tensor x, bool is_tanh, bool again) -> (Tensor, Tensor)";
inline constexpr const char* kSwiglu = "swiglu(Tensor gate, Tensor up) -> Tensor";
inline constexpr const char* kSwigluBackward =
    "swiglu_backward(Tensor dy, Tensor gate, Tensor up) -> (Tensor, Tensor)";
inline constexpr const char* kAccumulate =
    "accumulate_(Tensor(a!) sum, Tensor x, bool is_first) -> ()";
inline constexpr const char* kAddProduct =
    "add_product_(Tensor(a!) sum, Tensor dy, Tensor x, bool is_first) -> ()";
inline constexpr const char* kAdamw =
    "adamw_(Tensor(a!)[] values, Tensor[] gradients, Tensor(b!)[] first, Tensor(c!)[] second, "
    "Tensor(d!)[] weights, float rate, float decay, float beta1, float beta2, float epsilon, "
    "int step, Tensor? divisor) -> ()";

}  // namespace trireme::kernels
