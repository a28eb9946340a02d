// Attention cores of the transformers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "architectures/parts.h"

namespace trireme::model {

/// Attention of q (H heads) over k and v (G heads, G divides H), all [B, T, heads, D], contiguous
/// or views of contiguous tensors; returns [B, T, H x D]. Saves its inputs, its result and a number
/// per query.
at::Tensor attention(const at::Tensor& q_BTHD, const at::Tensor& k_BTGD, const at::Tensor& v_BTGD,
                     bool is_causal);

/// Causal attention: each token attends to itself and the tokens before it, including those of
/// earlier pieces if a text is run by pieces, within its window.
at::Tensor causal_attention(const at::Tensor& q_BTHD, const at::Tensor& k_BTGD,
                            const at::Tensor& v_BTGD, const Surroundings& around);

}  // namespace trireme::model
