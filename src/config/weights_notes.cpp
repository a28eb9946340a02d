// SPDX-License-Identifier: Apache-2.0
#include "trireme/config/weights_notes.h"

#include "families.h"
#include "foreign_config.h"

#include "trireme/config/adapters.h"
#include "trireme/config/huggingface.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>
#include <variant>

namespace trireme::config {
namespace {

constexpr Bytes kMaxConfig{1 << 20};

/// Keys of config.json that are read, or that do not affect training, in addition to those of a
/// family: those of transformers' GPT2Config and LlamaConfig, older versions included.
constexpr std::string_view kKnown[] = {
    // what the model is
    "activation_function", "add_cross_attention", "attention_bias", "head_dim", "hidden_act",
    "hidden_size", "intermediate_size", "is_causal", "is_encoder_decoder", "layer_norm_epsilon",
    "max_position_embeddings", "mlp_bias", "model_type", "n_ctx", "n_embd", "n_head", "n_inner",
    "n_layer", "n_positions", "num_attention_heads", "num_hidden_layers", "num_key_value_heads",
    "original_max_position_embeddings", "partial_rotary_factor", "pruned_heads",
    "quantization_config", "compression_config", "rms_norm_eps", "rope_parameters", "rope_scaling",
    "rope_theta", "scale_attn_by_inverse_layer_idx", "scale_attn_weights", "tie_word_embeddings",
    "vocab_size",
    // dropouts, which the job sets
    "attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop",
    // initialization, how to compute, heads of classifiers
    "attn_implementation", "auto_map", "chunk_size_feed_forward", "gradient_checkpointing",
    "initializer_range", "pretraining_tp", "reorder_and_upcast_attn", "summary_activation",
    "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj",
    "torchscript", "unsloth_fixed", "unsloth_version", "use_bfloat16", "use_cache",
    // names, types and tokens
    "_name_or_path", "architectures", "bos_token_id", "dtype", "eos_token_id", "finetuning_task",
    "id2label", "label2id", "pad_token_id", "prefix", "problem_type", "sep_token_id",
    "task_specific_params", "tokenizer_class", "torch_dtype", "transformers_version",
    // generation
    "bad_words_ids", "begin_suppress_tokens", "decoder_start_token_id", "diversity_penalty",
    "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty", "forced_bos_token_id", "forced_eos_token_id",
    "length_penalty", "max_length", "min_length", "no_repeat_ngram_size", "num_beam_groups",
    "num_beams", "num_return_sequences", "output_attentions", "output_hidden_states",
    "output_scores", "remove_invalid_values", "repetition_penalty", "return_dict",
    "return_dict_in_generate", "suppress_tokens", "temperature", "top_k", "top_p", "typical_p"};

/// Unknown keys of a config.json that are neither null nor false.
std::vector<std::string> unknown_keys(const io::Node& config) {
  const auto type = config.find("model_type");
  const Family* const family = type ? family_of(type->text()) : nullptr;
  const std::vector<std::string> own =
      family == nullptr ? std::vector<std::string>() : split(family->keys, ' ');
  const auto is_known = [&](const std::string& key) {
    return std::find(std::begin(kKnown), std::end(kKnown), key) != std::end(kKnown) ||
           std::find(own.begin(), own.end(), key) != own.end();
  };
  std::vector<std::string> unknown;
  for (const auto& [key, value] : config.entries()) {
    const bool says_nothing = value.kind() == io::Node::Kind::kNull ||
                              (value.kind() == io::Node::Kind::kScalar && value.text() == "false");
    if (!says_nothing && !is_known(key)) unknown.push_back(key);
  }
  return unknown;
}

std::optional<io::Node> load_beside(const std::string& folder, const char* name) {
  const std::filesystem::path file = std::filesystem::path(folder) / name;
  std::error_code none;
  if (folder.empty() || !std::filesystem::is_regular_file(file, none)) return std::nullopt;
  return io::load(file, kMaxConfig);
}

}  // namespace

std::vector<std::string> weights_notes(const JobSpec& job) {
  std::vector<std::string> notes;
  const auto* const llama = std::get_if<LlamaSpec>(&job.model);
  const auto weights = load_beside(job.weights, kHuggingFaceFile);
  if (weights)
    if (const std::vector<std::string> keys = unknown_keys(*weights); !keys.empty())
      notes.push_back(concat(job.weights, "/", kHuggingFaceFile, ": ", join(keys, ", "),
                             keys.size() == 1 ? " is" : " are",
                             " ignored; if that changes what the model computes, another model is "
                             "trained here"));
  if (weights && llama != nullptr) {
    const ForeignConfig config(*weights);
    const auto positions = config.whole("max_position_embeddings");
    if (positions && llama->context > *positions)
      notes.push_back(concat("model.context is ", llama->context, ", but ", job.weights,
                             " is made for texts of at most ", *positions,
                             " tokens (max_position_embeddings): later positions are new to it"));
    if (const auto padding = config.find("pad_token_id"))
      notes.push_back(concat("token ", padding->text(), " (pad_token_id of ", job.weights,
                             ") is trained like any other; in transformers its row of the "
                             "embedding has no gradient as an input"));
  }
  if (const auto adapters = load_beside(job.adapters, kAdaptersFile))
    if (const double dropout = adapters_dropout(*adapters); dropout > 0)
      notes.push_back(concat(job.adapters, " was made with lora_dropout: ", dropout,
                             "; adapters here train without dropout"));
  return notes;
}

}  // namespace trireme::config
