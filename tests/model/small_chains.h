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
