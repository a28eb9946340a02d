// How far a language model from elsewhere sees, by its `config.json`: what training on shorter
// texts does not ask, and going on with a long one does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/io/node.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace trireme::config {

struct Sight {
  std::int64_t tokens = 0;  ///< of the longest text (max_position_embeddings, n_positions)
  /// Of each block, how many tokens a token sees, itself included (sliding_window); nothing: all
  /// before it.
  std::vector<std::optional<int>> windows;
};

/// Of a model that read_huggingface() takes. Throws InputError with line and key.
Sight read_sight(const io::Node& config);

}  // namespace trireme::config
