// The pre-norm transformer block that gpt and vit share: x + attention(norm(x)), x + mlp(norm(x)),
// with layer norms, biases and GELU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "architectures/parts.h"

#include <cstdint>
#include <string>

namespace trireme::model {

/// Standard deviation of initial weights, in GPT-2 and in vision transformers.
inline constexpr double kDeviation = 0.02;

struct BlockShape {
  int blocks = 0;
  std::int64_t width = 0, heads = 0;
  std::int64_t tokens = 0;  ///< per example
  double dropout = 0;       ///< on both residual branches
  bool is_causal = false;
  std::string gelu = "none";  ///< at::gelu's approximation: none | tanh
  double norm_epsilon = 1e-5;
  Lora lora = {};
};

/// Adds `shape.blocks` blocks named block0, block1, ... that map one tensor [B, T, width] to
/// another.
void add_transformer_blocks(ChainModel& model, const BlockShape& shape, const std::string& grain);

}  // namespace trireme::model
