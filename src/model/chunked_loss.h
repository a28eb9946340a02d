// The mean cross-entropy of a linear head without all of its logits at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme::model {

/// Mean cross-entropy of x_NC times weight_VC against the classes target_N, `chunks` parts of the
/// rows one after the other. With grad enabled each part's gradients are computed right after its
/// loss, while its logits are there: the same work as a whole forward and backward. The tape then
/// holds the gradients of x and the weight instead of N x V logits. Products run under autocast as
/// at::linear does; sums over parts are in float32 (float64 for float64).
at::Tensor chunked_cross_entropy(const at::Tensor& x_NC, const at::Tensor& weight_VC,
                                 const at::Tensor& target_N, int chunks);

}  // namespace trireme::model
