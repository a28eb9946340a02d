// Longest text and attention windows of a Hugging Face model, from its `config.json`: inference on
// long texts needs them, training on shorter texts does not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/io/node.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace trireme::config {

struct Sight {
  std::int64_t tokens = 0;  ///< longest text (max_position_embeddings, n_positions)
  /// Per block, how many tokens a token sees, itself included (sliding_window); nothing: all before
  /// it.
  std::vector<std::optional<int>> windows;
};

/// Reads them for a model that read_huggingface() takes. Throws InputError with line and key.
Sight read_sight(const io::Node& config);

}  // namespace trireme::config
