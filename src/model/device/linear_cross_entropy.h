// Fused linear head and cross-entropy that stores as little as possible of the logits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme::model {

/// Targets of the rows.
struct Targets {
  at::Tensor classes_N;  ///< int64; with a `share`, kMasked for masked rows
  at::Tensor share;      ///< float [], weight of each unmasked row; undefined: none masked, 1 / N
};

/// Cross-entropy of x_NC times weight_VC against the targets, computed in `chunks` parts of the
/// rows, one after the other. Products are in the type that at::linear would give them (under
/// autocast, bfloat16); the loss and sums over parts are float32 (float64 for float64).
///
/// With one part and float32 or wider, uses LibTorch's operators. In bfloat16 the tape holds the
/// logits' gradients instead of the logits: 2 bytes each, where LibTorch's operators hold 4, take 4
/// more temporarily, and read and write them three times as often. With several parts each part's
/// gradients are computed right after its loss, while its logits exist: the same work as forward
/// plus backward, and the tape holds the gradients of x and the weight instead of N x V values.
///
/// With a soft `cap` above 0 logits y become cap x tanh(y / cap); the tape is as in bfloat16.
at::Tensor linear_cross_entropy(const at::Tensor& x_NC, const at::Tensor& weight_VC,
                                const Targets& targets, int chunks, double cap = 0);

}  // namespace trireme::model
