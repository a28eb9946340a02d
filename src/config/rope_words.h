// Rotary positions in a config.json of Hugging Face's transformers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "foreign_config.h"

#include "trireme/config/job.h"
#include "trireme/io/json.h"

#include <string_view>

namespace trireme::config {

/// What a family says of rotary positions.
struct RopeWords {
  double base = 10'000;         ///< where config.json names none
  bool may_be_partial = false;  ///< `partial_rotary_factor` may be below 1
  /// Windowed blocks have a base of their own, `rope_local_base_freq`, and no scaling.
  bool is_by_layer = false;
  std::string_view kinds = "default linear llama3 yarn";
};

/// Reads base, fraction and scaling: `rope_theta`, `partial_rotary_factor` and `rope_scaling`, or
/// since version 5 `rope_parameters`. Throws InputError with the key for others.
void read_rope(const ForeignConfig& config, const RopeWords& words, LlamaSpec& into);
/// Writes them in the older words, which both versions read.
void write_rope(const LlamaSpec& spec, const RopeWords& words, io::Json& into);

}  // namespace trireme::config
