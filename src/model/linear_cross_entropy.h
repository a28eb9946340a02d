// The cross-entropy of a linear head, with as little as possible written down of its logits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme::model {

/// What rows are compared with.
struct Targets {
  at::Tensor classes_N;  ///< int64; with a `share`, kMasked for rows that do not count
  at::Tensor share;  ///< float [], what each row that counts weighs; undefined: all count, 1 / N
};

/// Cross-entropy of x_NC times weight_VC against the targets, `chunks` parts of the rows one after
/// the other. Products are in the type that at::linear would give them (under
/// autocast, bfloat16); the loss, and sums over parts, are in float32 (float64 for float64).
///
/// In one part and at least float32 these are LibTorch's operators. In bfloat16 the tape holds the
/// logits' gradients, in place of the logits: 2 bytes each, where LibTorch's operators hold 4, take
/// 4 more for a moment, and pass over them three times as often. In several parts each part's
/// gradients are computed right after its loss, while its logits are there: the same work as a
/// whole forward and backward, and the tape holds the gradients of x and the weight instead of N x
/// V values.
at::Tensor linear_cross_entropy(const at::Tensor& x_NC, const at::Tensor& weight_VC,
                                const Targets& targets, int chunks);

}  // namespace trireme::model
