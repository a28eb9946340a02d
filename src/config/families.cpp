// SPDX-License-Identifier: Apache-2.0
#include "families.h"

#include "family_words.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace trireme::config {
namespace {

constexpr const char *kPositions = "max_position_embeddings", *kKvHeads = "num_key_value_heads";
/// Default limit of the context, below what a model was trained with: activations grow with it.
constexpr int kDefaultContext = 1024;
/// Our words and those of transformers for activations; the first of each pair is written.
constexpr std::pair<std::string_view, std::string_view> kActivations[] = {
    {"silu", "silu"},
    {"silu", "swish"},
    {"gelu", "gelu"},
    {"gelu_tanh", "gelu_pytorch_tanh"},
    {"gelu_tanh", "gelu_new"}};

std::string read_activation(const Family& family, const ForeignConfig& config);
void read_biases(const Family& family, const ForeignConfig& config, LlamaSpec& into);
/// The model with what is left open in numbers, and without what config.json does not say.
LlamaSpec settled(LlamaSpec spec);

/// Defaults are those of the configuration classes of transformers 5.
constexpr auto kFamilies = std::to_array<Family>(
    {{.model_type = "llama",
      .architecture = "LlamaForCausalLM",
      .has_attention_bias = true,
      .has_mlp_bias = true},
     {.model_type = "mistral",
      .architecture = "MistralForCausalLM",
      .kv_heads = 8,
      .hidden = 14336,
      .positions = 131072,
      .keys = "sliding_window",
      .read = read_mistral,
      .write = write_mistral},
     {.model_type = "qwen2",
      .architecture = "Qwen2ForCausalLM",
      .kv_heads = 32,
      .hidden = 22016,
      .positions = 32768,
      .vocabulary = 151936,
      .qkv_bias = true,
      .keys = "sliding_window use_sliding_window layer_types max_window_layers",
      .read = read_qwen,
      .write = write_qwen},
     {.model_type = "qwen3",
      .architecture = "Qwen3ForCausalLM",
      .kv_heads = 32,
      .head_width = 128,
      .hidden = 22016,
      .positions = 32768,
      .vocabulary = 151936,
      .qk_norm = "head",
      .has_attention_bias = true,
      .keys = "sliding_window use_sliding_window layer_types max_window_layers",
      .read = read_qwen,
      .write = write_qwen},
     {.model_type = "olmo2",
      .architecture = "Olmo2ForCausalLM",
      .vocabulary = 50304,
      .norm_epsilon = 1e-5,
      .norms = "after",
      .qk_norm = "all",
      .has_attention_bias = true},
     {.model_type = "granite",
      .architecture = "GraniteForCausalLM",
      .has_attention_bias = true,
      .has_mlp_bias = true,
      .keys = "attention_multiplier embedding_multiplier logits_scaling residual_multiplier",
      .read = read_granite,
      .write = write_granite},
     {.model_type = "smollm3",
      .architecture = "SmolLM3ForCausalLM",
      .blocks = 36,
      .width = 2048,
      .heads = 16,
      .kv_heads = 4,
      .positions = 32768,
      .vocabulary = 128256,
      .tied_head = true,
      .has_attention_bias = true,
      .has_mlp_bias = true,
      .rope = {.base = 2'000'000},
      .keys = "sliding_window use_sliding_window layer_types max_window_layers no_rope_layers "
              "no_rope_layer_interval",
      .read = read_smollm3,
      .write = write_smollm3},
     {.model_type = "phi3",
      .architecture = "Phi3ForCausalLM",
      .width = 3072,
      .hidden = 8192,
      .positions = 4096,
      .vocabulary = 32064,
      .norm_epsilon = 1e-5,
      .fused_linears = true,
      .rope = {.may_be_partial = true, .kinds = "default"},
      .keys = "sliding_window",
      .read = read_phi3,
      .write = write_phi3},
     {.model_type = "gemma",
      .architecture = "GemmaForCausalLM",
      .blocks = 28,
      .width = 3072,
      .heads = 16,
      .kv_heads = 16,
      .head_width = 256,
      .hidden = 24576,
      .positions = 8192,
      .vocabulary = 256000,
      .tied_head = true,
      .activation = "gelu_tanh",
      .zero_centered_norms = true,
      .has_attention_bias = true,
      .keys = "use_bidirectional_attention hidden_activation",
      .read = read_gemma},
     {.model_type = "gemma2",
      .architecture = "Gemma2ForCausalLM",
      .blocks = 26,
      .width = 2304,
      .heads = 8,
      .kv_heads = 4,
      .head_width = 256,
      .hidden = 9216,
      .positions = 8192,
      .vocabulary = 256000,
      .tied_head = true,
      .activation = "gelu_tanh",
      .norms = "both",
      .zero_centered_norms = true,
      .activation_key = "hidden_activation",
      .has_attention_bias = true,
      .keys = "sliding_window layer_types query_pre_attn_scalar attn_logit_softcapping "
              "final_logit_softcapping use_bidirectional_attention cache_implementation",
      .read = read_gemma2,
      .write = write_gemma2},
     {.model_type = "gemma3_text",
      .architecture = "Gemma3ForCausalLM",
      .blocks = 26,
      .width = 2304,
      .heads = 8,
      .kv_heads = 4,
      .head_width = 256,
      .hidden = 9216,
      .positions = 131072,
      .vocabulary = 262208,
      .tied_head = true,
      .activation = "gelu_tanh",
      .norms = "both",
      .qk_norm = "head",
      .zero_centered_norms = true,
      .activation_key = "hidden_activation",
      .has_attention_bias = true,
      .rope = {.base = 1'000'000, .is_by_layer = true},
      .keys = "sliding_window layer_types query_pre_attn_scalar attn_logit_softcapping "
              "final_logit_softcapping use_bidirectional_attention cache_implementation "
              "rope_local_base_freq sliding_window_pattern",
      .read = read_gemma3,
      .write = write_gemma3}});

}  // namespace

std::span<const Family> families() {
  return kFamilies;
}

const Family* family_of(std::string_view model_type) {
  for (const Family& family : kFamilies)
    if (family.model_type == model_type) return &family;
  return nullptr;
}

int most_positions(const Family& family, const ForeignConfig& config) {
  return config.whole(kPositions, family.positions);
}

LlamaSpec read_as(const Family& family, const ForeignConfig& config) {
  LlamaSpec spec;
  spec.blocks = config.whole("num_hidden_layers", family.blocks);
  spec.width = config.whole("hidden_size", family.width);
  spec.heads = config.whole("num_attention_heads", family.heads);
  // Null means the number of heads; a missing key has a default of its own.
  spec.kv_heads = config.has(kKvHeads) ? config.whole(kKvHeads, spec.heads)
                                       : family.kv_heads.value_or(spec.heads);
  spec.head_width = config.has("head_dim") ? config.whole("head_dim") : family.head_width;
  if (spec.head_width == spec.width / spec.heads) spec.head_width.reset();
  spec.hidden = config.whole("intermediate_size", family.hidden);
  spec.context = std::min(kDefaultContext, most_positions(family, config));
  spec.vocabulary = config.whole("vocab_size", family.vocabulary);
  spec.tied_head = config.flag("tie_word_embeddings", family.tied_head);
  spec.norm_epsilon = config.number("rms_norm_eps", family.norm_epsilon);
  spec.activation = read_activation(family, config);
  spec.norms = family.norms;
  spec.qk_norm = family.qk_norm;
  spec.zero_centered_norms = family.zero_centered_norms;
  spec.fused_linears = family.fused_linears;
  read_biases(family, config, spec);
  read_rope(config, family.rope, spec);
  if (family.read != nullptr) family.read(config, spec);
  return spec;
}

std::optional<io::Json> written_as(const Family& family, const LlamaSpec& spec) {
  const auto* const activation =
      std::find_if(std::begin(kActivations), std::end(kActivations),
                   [&](const auto& each) { return each.first == spec.activation; });
  io::Json json{{"architectures", io::Json::array({family.architecture})},
                {"model_type", family.model_type},
                {"num_hidden_layers", spec.blocks},
                {"hidden_size", spec.width},
                {"num_attention_heads", spec.heads},
                {kKvHeads, spec.key_value_heads()},
                {"intermediate_size", spec.hidden_width()},
                {kPositions, spec.context},
                {"vocab_size", spec.vocabulary},
                {family.activation_key, activation->second},
                {"rms_norm_eps", spec.norm_epsilon},
                {"tie_word_embeddings", spec.tied_head},
                {"attention_bias", family.has_attention_bias && spec.projection_bias},
                {"mlp_bias", family.has_mlp_bias && spec.mlp_bias}};
  if (family.head_width || spec.head_width) json["head_dim"] = spec.head_size();
  write_rope(spec, family.rope, json);
  if (family.write != nullptr) family.write(spec, json);
  const io::Node node = io::parse(io::document(json), "config.json");
  try {
    LlamaSpec back = read_as(family, ForeignConfig(node));
    if (settled(std::move(back)) == settled(spec)) return json;
  } catch (const InputError&) {
    // A part has a value that this family cannot say.
  }
  return std::nullopt;
}

namespace {

std::string read_activation(const Family& family, const ForeignConfig& config) {
  const std::string key(family.activation_key);
  const auto found = config.find(key);
  if (!found) return std::string(family.activation);
  std::vector<std::string> known;
  for (const auto& [ours, theirs] : kActivations) {
    if (found->text() == theirs) return std::string(ours);
    known.emplace_back(theirs);
  }
  config.require(key, known);
  return {};
}

void read_biases(const Family& family, const ForeignConfig& config, LlamaSpec& into) {
  const auto flag = [&](const char* key, bool is_known) {
    if (is_known) return config.flag(key, false);
    config.require(key, {"false"});
    return false;
  };
  into.projection_bias = flag("attention_bias", family.has_attention_bias);
  into.qkv_bias = family.qkv_bias || into.projection_bias;
  into.mlp_bias = flag("mlp_bias", family.has_mlp_bias);
}

LlamaSpec settled(LlamaSpec spec) {
  const LlamaSpec plain;
  spec.kv_heads = spec.key_value_heads();
  spec.head_width = spec.head_size();
  spec.hidden = static_cast<int>(spec.hidden_width());
  spec.attention_scale = spec.score_scale();
  if (!spec.window) spec.window_blocks.clear();
  if (spec.window_rope_base == spec.rope_base && spec.rope_scaling == "none")
    spec.window_rope_base.reset();
  if (!spec.window) spec.window_rope_base.reset();
  if (spec.rope_scaling == "none") {
    spec.rope_factor = plain.rope_factor;
    spec.rope_attention_factor = plain.rope_attention_factor;
  }
  if (spec.rope_scaling == "none" || spec.rope_scaling == "linear") {
    spec.rope_low_turns = plain.rope_low_turns;
    spec.rope_high_turns = plain.rope_high_turns;
    spec.rope_original_context = plain.rope_original_context;
  }
  spec.context = plain.context;
  spec.grain = plain.grain;
  spec.loss_chunks = plain.loss_chunks;
  spec.lora_rank = plain.lora_rank;
  spec.lora_alpha = plain.lora_alpha;
  spec.lora_targets.clear();
  spec.trained.clear();
  return spec;
}

}  // namespace
}  // namespace trireme::config
