// The pre-norm transformer block that gpt and vit share: x + attention(norm(x)), x + mlp(norm(x)),
// with layer norms, biases and GELU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parts.h"

#include <cstdint>
#include <string>

namespace trireme::model {

/// Of initial weights, in GPT-2 and in vision transformers.
inline constexpr double kDeviation = 0.02;

struct BlockShape {
  int blocks = 0;
  std::int64_t width = 0, heads = 0;
  std::int64_t tokens = 0;  ///< of one example
  double dropout = 0;       ///< on both residual branches
  bool is_causal = false;
  std::string gelu = "none";  ///< at::gelu's approximation: none | tanh
  double norm_epsilon = 1e-5;
  Lora lora = {};
};

/// Adds `shape.blocks` blocks named block0, block1, ... that take and give one tensor
/// [B, T, width].
void add_transformer_blocks(ChainModel& model, const BlockShape& shape, const std::string& grain);

/// Attention of q_BTC (H heads) over k and v (G heads that divide H); all are [B, T, heads x D],
/// rows following each other in memory, or views of it. Keeps its inputs, its result and a number
/// per query.
at::Tensor attention(const at::Tensor& q_BTHD, const at::Tensor& k_BTGD, const at::Tensor& v_BTGD,
                     bool is_causal);

/// The same, each token seeing those before it and itself; of a text by pieces those of the pieces
/// before, too, as far as its window goes.
at::Tensor causal_attention(const at::Tensor& q_BTHD, const at::Tensor& k_BTGD,
                            const at::Tensor& v_BTGD, const Surroundings& around);

}  // namespace trireme::model
