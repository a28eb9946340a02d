// Attention cores of the transformers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "architectures/capped_attention.h"
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
/// text is run by pieces, the tokens include those of earlier pieces, and `past` has the window. If
/// rows hold documents (Context::documents), each token attends to those of its document
/// (document_attention.h).
///
/// Saves what attention() saves; with a window shorter than the text also T x T numbers. With a cap
/// it saves its inputs alone, and the backward computes the scores once more.
at::Tensor causal_attention(const at::Tensor& q_BTHD, const at::Tensor& k_BTGD,
                            const at::Tensor& v_BTGD, const Surroundings& around,
                            const Scores& scores = {});

/// Bool [T, T]: which tokens each token of a text attends to.
at::Tensor window_mask(std::int64_t tokens, std::int64_t window, c10::Device device);
/// The scores of heads of `width` values that have a cap.
Cap cap_of(const Scores& scores, std::int64_t width, const std::optional<at::Tensor>& mask);
/// Attention under a mask, bool [B, T, T] or [T, T], in which every token attends to one at least;
/// the window of `scores` is in the mask. Saves the mask besides what causal_attention() saves.
at::Tensor masked_attention(const at::Tensor& q_BTHD, const at::Tensor& k_BTGD,
                            const at::Tensor& v_BTGD, const at::Tensor& mask, const Scores& scores);

}  // namespace trireme::model
