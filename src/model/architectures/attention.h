// Attention cores of the transformers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "architectures/parts.h"

#include <cstdint>
#include <optional>

namespace trireme::model {

/// Attention of q (H heads) over k and v (G heads, G divides H), all [B, T, heads, D], contiguous
/// or views of contiguous tensors; returns [B, T, H x D]. Scores are multiplied by `scale`, or by 1
/// / sqrt(D). Saves its inputs, its result and a number per query.
at::Tensor attention(const at::Tensor& q_BTHD, const at::Tensor& k_BTGD, const at::Tensor& v_BTGD,
                     bool is_causal, std::optional<double> scale = {});

/// What becomes of the scores of a causal attention.
struct Scores {
  std::optional<double> scale = {};  ///< as in attention()
  double cap = 0;                    ///< soft cap after the scale, cap x tanh(y / cap); 0: none
  /// How many tokens a token attends to, itself included; nothing: all before it.
  std::optional<std::int64_t> window = {};
};

/// Causal attention: each token attends to itself and the tokens before it, within its window. If a
/// text is run by pieces, the tokens include those of earlier pieces, and `past` has the window.
///
/// Saves what attention() saves; with a window shorter than the text also T x T numbers. With a cap
/// it saves its inputs alone, and the backward computes the scores once more.
at::Tensor causal_attention(const at::Tensor& q_BTHD, const at::Tensor& k_BTGD,
                            const at::Tensor& v_BTGD, const Surroundings& around,
                            const Scores& scores = {});

}  // namespace trireme::model
