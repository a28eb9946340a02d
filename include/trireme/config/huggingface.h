// gpt and llama as Hugging Face's transformers know them (GPT2LMHeadModel, LlamaForCausalLM,
// Qwen2ForCausalLM), so
// that weights can come from there and go there. Other chains have names of their own.
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

/// In a folder of weights: what they are of.
inline constexpr const char* kHuggingFaceFile = "config.json";

/// The model of a `config.json`. `context` is the most that it was trained with, a llama's at most
/// 1024; dropout is left off. Throws InputError with line and key for an architecture that is none
/// of ours: other activations, biases, scaled attention, sliding windows.
ModelSpec read_huggingface(const io::Node& config);

/// The model's `config.json`; nothing for kinds that transformers do not know by ours. What the one
/// that it began with said of special tokens (where text begins and ends), and of a llama's longest
/// text, stays.
std::optional<std::string> to_huggingface(const ModelSpec& model,
                                          const std::optional<io::Node>& began_with = {});

/// Where files of weights have a tensor of a chain.
struct WeightPlace {
  std::string name;
  bool is_transposed = false;   ///< linear weights of a GPT-2: [in, out]
  std::string_view rows_key{};  ///< key of the job that says how many rows it has, if any does

  bool operator==(const WeightPlace&) const = default;
};

/// The linear weights of a block by our names and by theirs, within it: "qkv" is "attn.c_attn";
/// nothing for other chains than gpt and llama.
std::vector<std::pair<std::string, std::string>> linear_modules(const ModelSpec& model);

/// What the modules of a block are called in transformers before their names within it:
/// "transformer.h.3." of a gpt, "model.layers.3." of a llama.
std::string module_of_block(const ModelSpec& model, int block);
/// Modules with parameters outside the blocks: "lm_head", "model.embed_tokens", "model.norm".
std::vector<std::string> other_modules(const ModelSpec& model);

/// A tensor that a file may hold beside the parameters, if its values say nothing new.
enum class Extra {
  kNone,         ///< it may not
  kCausalMask,   ///< "attn.bias" of a GPT-2, [1, 1, n, n]: ones up to the diagonal
  kMaskedScore,  ///< "attn.masked_bias" of a GPT-2: the score of what is masked, -10000 or less
  kAngles,       ///< "rotary_emb.inv_freq" of a llama: radians per position of each pair, [D/2]
  kTiedHead,     ///< "lm_head.weight" of a model with a tied head: the embedding
};

/// Names of a chain's parameters and buffers in files of weights, whatever its grain.
class WeightNames {
 public:
  explicit WeightNames(const ModelSpec& model);

  /// Of tensor `name` in layer `layer` of the chain: "qkv.weight" in "block3.attention" of a gpt is
  /// "transformer.h.3.attn.c_attn.weight", transposed. For kinds of our own "LAYER.NAME".
  WeightPlace of(std::string_view layer, std::string_view name) const;

  /// Of the same tensor whatever the grain, and of all uses of a tied weight:
  /// "block3.mlp.up.weight".
  std::string place_of(std::string_view layer, std::string_view name) const;

  /// Of a tensor in a file: the same, or what it is called where the model has its head:
  /// "h.0.ln_1.bias" is "transformer.h.0.ln_1.bias".
  std::string with_head(std::string_view name) const;
  /// Which tensor beside the parameters has this (completed) name.
  Extra extra(std::string_view name) const;

 private:
  std::string kind_;
  bool is_fine_ = false, is_tied_ = false;
  std::map<std::string, std::string, std::less<>> tied_;  ///< other uses: where the first one is
};

}  // namespace trireme::config
