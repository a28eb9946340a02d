// Longest text of a Hugging Face model, from its `config.json`: generation may need it, training on
// shorter texts does not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/io/node.h"

#include <cstdint>

namespace trireme::config {

/// Tokens of the longest text (max_position_embeddings, n_positions) of a model that
/// read_huggingface() takes. Throws InputError with line and key.
std::int64_t longest_text(const io::Node& config);

}  // namespace trireme::config
