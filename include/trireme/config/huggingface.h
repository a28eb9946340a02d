// Conversion of gpt and llama from and to Hugging Face's transformers (GPT2LMHeadModel,
// LlamaForCausalLM and the other families of decoders): their `config.json` and names of weights.
// Other chains have names of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/io/node.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme::config {

/// File of a folder of weights that describes their model.
inline constexpr const char* kHuggingFaceFile = "config.json";
/// Files that describe a model's tokens, which are the same before and after training.
inline constexpr const char* kTokenizerFiles[] = {"tokenizer.json",
                                                  "tokenizer.model",
                                                  "tokenizer_config.json",
                                                  "special_tokens_map.json",
                                                  "added_tokens.json",
                                                  "vocab.json",
                                                  "merges.txt",
                                                  "generation_config.json",
                                                  "chat_template.jinja"};

/// The model of a `config.json`. `context` is the longest that it was trained with, for a llama at
/// most 1024; dropout is left off. Throws InputError with line and key for an unsupported
/// architecture or part: other activations, biases, scaled attention.
ModelSpec read_huggingface(const io::Node& config);

/// The model's `config.json`; nothing for kinds that transformers do not have, and for a llama
/// whose parts no family of transformers has together. Special tokens
/// (where text begins and ends), and a llama's longest text, are copied from the `config.json` that
/// training began with.
std::optional<std::string> to_huggingface(const ModelSpec& model,
                                          const std::optional<io::Node>& began_with = {});

/// Name and layout of a chain's tensor in files of weights.
struct WeightPlace {
  std::string name;
  bool is_transposed = false;   ///< linear weights of a GPT-2: [in, out]
  std::string_view rows_key{};  ///< key of the job that says how many rows it has, if any does

  bool operator==(const WeightPlace&) const = default;
};

/// The linear weights of a block, as pairs of our name and that of transformers, within the block:
/// "qkv" is "attn.c_attn". Empty for chains other than gpt and llama.
std::vector<std::pair<std::string, std::string>> linear_modules(const ModelSpec& model);

/// Prefix of a block's module names in transformers: "transformer.h.3." of a gpt, "model.layers.3."
/// of a llama.
std::string module_of_block(const ModelSpec& model, int block);
/// Modules with parameters outside the blocks: "lm_head", "model.embed_tokens", "model.norm".
std::vector<std::string> other_modules(const ModelSpec& model);

/// A tensor that a file may hold in addition to the parameters, if its values are redundant.
enum class Extra {
  kNone,         ///< none of these
  kCausalMask,   ///< "attn.bias" of a GPT-2, [1, 1, n, n]: ones up to the diagonal
  kMaskedScore,  ///< "attn.masked_bias" of a GPT-2: the score of masked positions, -10000 or less
  kAngles,       ///< "rotary_emb.inv_freq" of a llama: radians per position of each pair, [D/2]
  kTiedHead,     ///< "lm_head.weight" of a model with a tied head: the embedding
};

/// Names of a chain's parameters and buffers in files of weights, independent of its grain.
class WeightNames {
 public:
  /// Prefixes of our names and those of transformers. In blocks "#" stands for the block's number.
  struct Renaming {
    std::string_view ours, theirs;
    bool is_transposed = false;
    std::string_view rows_key{};
  };

  explicit WeightNames(const ModelSpec& model);

  /// Place of tensor `name` in layer `layer` of the chain: "qkv.weight" in "block3.attention" of a
  /// gpt is "transformer.h.3.attn.c_attn.weight", transposed. For kinds of our own "LAYER.NAME".
  WeightPlace of(std::string_view layer, std::string_view name) const;

  /// Our name of the same tensor, one for every grain and for all uses of a tied weight:
  /// "block3.mlp.up.weight".
  std::string place_of(std::string_view layer, std::string_view name) const;

  /// The name of a file's tensor, completed where the file is of a model without its head:
  /// "h.0.ln_1.bias" becomes "transformer.h.0.ln_1.bias".
  std::string with_head(std::string_view name) const;
  /// Which redundant tensor has this (completed) name.
  Extra extra(std::string_view name) const;

 private:
  std::string kind_;
  std::vector<Renaming> table_;  ///< empty for kinds of our own
  bool is_fine_ = false, is_tied_ = false;
  std::map<std::string, std::string, std::less<>> tied_;  ///< other uses: the first one
};

}  // namespace trireme::config
