// One small chain of every kind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/chain.h"

#include <string>

namespace trireme::model {

inline ChainModel small_gpt(const std::string& grain, int loss_chunks = 1) {
  return make_gpt({.blocks = 1,
                   .width = 12,
                   .heads = 3,
                   .context = 5,
                   .vocabulary = 11,
                   .dropout = 0.2,
                   .grain = grain,
                   .loss_chunks = loss_chunks});
}

inline ChainModel small_llama(const std::string& grain) {
  return make_llama({.blocks = 1,
                     .width = 16,
                     .heads = 4,
                     .kv_heads = 2,
                     .hidden = 10,
                     .context = 5,
                     .vocabulary = 11,
                     .grain = grain});
}

/// A decoder with all parts that a llama may have and that go together; block 0 has a window and
/// block 1 none, and no rotary positions.
inline ChainModel small_decoder(const std::string& grain, int loss_chunks = 1) {
  config::LlamaSpec spec{.blocks = 2, .width = 16, .heads = 4, .kv_heads = 2, .head_width = 6};
  spec.hidden = 10;
  spec.context = 5;
  spec.vocabulary = 11;
  spec.qkv_bias = spec.projection_bias = spec.mlp_bias = true;
  spec.fused_linears = true;
  spec.activation = "gelu_tanh";
  spec.norms = "both";
  spec.qk_norm = "head";
  spec.zero_centered_norms = true;
  spec.embedding_scale = 4;
  spec.residual_scale = 0.7;
  spec.attention_scale = 0.3;
  spec.attention_cap = 2;
  spec.logits_divisor = 1.5;
  spec.logits_cap = 3;
  spec.window = 3;
  spec.window_blocks = {0};
  spec.window_rope_base = 50;
  spec.rope_fraction = 0.7;
  spec.unrotated_blocks = {1};
  spec.grain = grain;
  spec.loss_chunks = loss_chunks;
  return make_llama(spec);
}

/// One with norms after the branches alone, and a window without a cap.
inline ChainModel small_windowed_decoder(const std::string& grain) {
  config::LlamaSpec spec{.blocks = 1, .width = 16, .heads = 4, .kv_heads = 2, .hidden = 10};
  spec.context = 5;
  spec.vocabulary = 11;
  spec.norms = "after";
  spec.qk_norm = "all";
  spec.window = 3;
  spec.grain = grain;
  return make_llama(spec);
}

inline ChainModel small_vit() {
  return make_vit({.image_size = 6,
                   .patch = 3,
                   .blocks = 1,
                   .width = 8,
                   .heads = 2,
                   .channels = 2,
                   .dropout = 0.2});
}

inline ChainModel small_resnet18() {
  return make_resnet({.depth = 18, .image_size = 9, .channels = 2, .width = 3});
}

inline ChainModel small_vgg() {
  return make_vgg({.depth = 11, .image_size = 33, .width = 2});
}

}  // namespace trireme::model
