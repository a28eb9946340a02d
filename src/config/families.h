// Families of decoders in Hugging Face's transformers: how the config.json of each says which parts
// a LlamaSpec has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "foreign_config.h"
#include "rope_words.h"

#include "trireme/config/job.h"
#include "trireme/io/json.h"

#include <optional>
#include <span>
#include <string_view>

namespace trireme::config {

/// A family: the defaults of its keys, what its code computes whatever they say, and the keys that
/// not all families have.
struct Family {
  std::string_view model_type, architecture;

  int blocks = 32, width = 4096, heads = 32;
  std::optional<int> kv_heads = {};    ///< nothing: as many as heads
  std::optional<int> head_width = {};  ///< nothing: width / heads
  int hidden = 11008, positions = 2048, vocabulary = 32000;
  double norm_epsilon = 1e-6;
  bool tied_head = false;
  std::string_view activation = "silu";

  bool qkv_bias = false;
  std::string_view norms = "before", qk_norm = "none";
  bool zero_centered_norms = false, fused_linears = false;

  std::string_view activation_key = "hidden_act";
  bool has_attention_bias = false, has_mlp_bias = false;
  RopeWords rope = {};
  std::string_view keys = "";  ///< that `read` and `write` know, separated by spaces
  void (*read)(const ForeignConfig& config, LlamaSpec& into) = nullptr;
  void (*write)(const LlamaSpec& spec, io::Json& into) = nullptr;
};

/// All families, in the order in which an exported model looks for one that has its parts.
std::span<const Family> families();
/// Null if none has this `model_type`.
const Family* family_of(std::string_view model_type);

/// The model of a `config.json` of this family; `context` is the longest that it was trained with,
/// at most 1024. Throws InputError with line and key for what is not supported.
LlamaSpec read_as(const Family& family, const ForeignConfig& config);
/// The model's `config.json`; nothing if the family lacks one of its parts.
std::optional<io::Json> written_as(const Family& family, const LlamaSpec& spec);

/// Tokens of the longest text: `max_position_embeddings` or its default.
int most_positions(const Family& family, const ForeignConfig& config);

}  // namespace trireme::config
