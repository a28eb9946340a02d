// Longest text and sliding windows of a llama's config.json, read alike for training and inference.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "foreign_config.h"

#include <vector>

namespace trireme::config {

/// Tokens of the longest text: `max_position_embeddings`, or transformers' default for its kind.
int most_positions(const ForeignConfig& config);

/// Whether each of `blocks` blocks has a sliding window: all of a mistral; of a qwen2 with
/// `use_sliding_window` those that `layer_types` names, or else all from `max_window_layers` on;
/// none of others. Throws InputError unless `layer_types` has an entry for each block.
std::vector<bool> windowed_blocks(const ForeignConfig& config, int blocks);

}  // namespace trireme::config
