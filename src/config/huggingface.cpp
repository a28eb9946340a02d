// SPDX-License-Identifier: Apache-2.0
#include "trireme/config/huggingface.h"

#include "foreign_config.h"
#include "llama_sight.h"

#include "trireme/core/text.h"
#include "trireme/io/json.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace trireme::config {
namespace {

constexpr std::int64_t kMostToken = 100'000'000;
/// `model_type` of a llama with biases of queries, keys and values.
constexpr const char* kWithBiases = "qwen2";
/// Key with the longest text that a llama was trained with.
constexpr const char* kPositions = "max_position_embeddings";
/// Default limit of a llama's context, below what it was trained with: activations grow with it.
constexpr int kDefaultContext = 1024;
/// Default sliding window of Mistral and Qwen2.
constexpr int kDefaultWindow = 4096;
constexpr const char *kWindow = "sliding_window", *kKvHeads = "num_key_value_heads",
                     *kOriginal = "original_max_position_embeddings",
                     *kPartial = "partial_rotary_factor";

/// Defaults of transformers' LlamaConfig, MistralConfig, and Qwen2Config for missing keys.
struct LlamaDefaults {
  int hidden, positions, vocabulary;
  std::optional<int> kv_heads;  ///< nothing: as many as heads
};

GptSpec read_gpt(const ForeignConfig& config);
LlamaSpec read_llama(const ForeignConfig& config);
LlamaDefaults defaults_of(const std::string& model_type);
/// Throws InputError for settings of any model that change what its weights mean.
void require_plain(const ForeignConfig& config);
/// A number that config.json may give by either of two names.
int either(const ForeignConfig& config, const char* key, const char* alias, int fallback);
void read_rope(const ForeignConfig& config, LlamaSpec& into);
void read_scaling(const ForeignConfig& rope, const std::string& kind, LlamaSpec& into);
/// Throws InputError unless rotary positions apply to all of a head.
void require_whole_heads(const ForeignConfig& config);
/// Number of a llama's blocks.
int blocks_of(const ForeignConfig& config);
/// How many tokens a token of a llama sees, itself included; nothing: all.
std::optional<int> window_of(const ForeignConfig& config);

io::Json json_of(const GptSpec& spec);
io::Json json_of(const LlamaSpec& spec);
/// Null where positions are not scaled.
io::Json rope_scaling_of(const LlamaSpec& spec);

/// One token id, a list of them, or null.
io::Json token_ids(const std::optional<io::Node>& node);

}  // namespace

int most_positions(const ForeignConfig& config) {
  return config.whole(kPositions, defaults_of(config.find("model_type")->text()).positions);
}

std::vector<bool> windowed_blocks(const ForeignConfig& config, int blocks) {
  const auto type = config.find("model_type");
  const bool is_mistral = type && type->text() == "mistral";
  const bool is_qwen =
      type && type->text() == kWithBiases && config.flag("use_sliding_window", false);
  std::vector<bool> windowed(static_cast<std::size_t>(blocks), is_mistral);
  if (!is_qwen) return windowed;
  const auto types = config.find("layer_types");
  if (types && types->list().size() != windowed.size())
    config.fail("layer_types", concat("has ", types->list().size(), " entries, but the model has ",
                                      blocks, " blocks: must have one for each"));
  const int first = types ? 0 : config.count("max_window_layers", 28);
  for (std::size_t block = 0; block < windowed.size(); ++block)
    windowed[block] = types
                          ? types->list()[block].choice({"full_attention", "sliding_attention"}) ==
                                "sliding_attention"
                          : std::cmp_greater_equal(block, first);
  return windowed;
}

ModelSpec read_huggingface(const io::Node& node) {
  const ForeignConfig config(node);
  const std::vector<std::string> kinds{"gpt2", "llama", "mistral", "qwen2"};
  const auto type = config.find("model_type");
  if (!type) config.fail("model_type", concat("is missing, must be one of ", join(kinds, ", ")));
  const std::string kind = type->text();
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
    type->fail(concat("is ", kind, ", must be one of ", join(kinds, ", "),
                      ": other architectures are not supported"));
  require_plain(config);
  if (kind == "gpt2") return read_gpt(config);
  return read_llama(config);
}

std::optional<std::string> to_huggingface(const ModelSpec& model,
                                          const std::optional<io::Node>& began_with) {
  io::Json json;
  if (const auto* gpt = std::get_if<GptSpec>(&model)) json = json_of(*gpt);
  if (const auto* llama = std::get_if<LlamaSpec>(&model)) json = json_of(*llama);
  if (json.is_null()) return std::nullopt;
  // Rotary positions are unbounded: training on shorter texts keeps the longest text.
  const auto most = began_with && !window_of(ForeignConfig(*began_with))
                        ? ForeignConfig(*began_with).whole(kPositions)
                        : std::nullopt;
  if (most && json.contains(kPositions))
    json[kPositions] = std::max(*most, json[kPositions].get<int>());
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    json[key] = began_with ? token_ids(began_with->find(key)) : io::Json();
  return io::document(json);
}

namespace {

GptSpec read_gpt(const ForeignConfig& config) {
  GptSpec spec;
  spec.blocks = either(config, "n_layer", "num_hidden_layers", 12);
  spec.width = either(config, "n_embd", "hidden_size", 768);
  spec.heads = either(config, "n_head", "num_attention_heads", 12);
  spec.context = either(config, "n_positions", kPositions, 1024);
  spec.positions = spec.context;  // whatever context a job has
  spec.vocabulary = config.whole("vocab_size", 50257);
  spec.tied_head = config.flag("tie_word_embeddings", true);
  spec.norm_epsilon = config.number("layer_norm_epsilon", 1e-5);
  config.require_whole("n_inner", 4 * spec.width);
  config.require("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  config.require("scale_attn_weights", {"true"});
  config.require("scale_attn_by_inverse_layer_idx", {"false"});
  return spec;
}

void require_plain(const ForeignConfig& config) {
  for (const char* const key : {"quantization_config", "compression_config"})
    if (config.find(key))
      config.fail(key,
                  "is set, but quantized weights are not supported: name a folder with weights in "
                  "a floating type");
  for (const char* const key : {"add_cross_attention", "is_encoder_decoder"})
    config.require(key, {"false"});
  // Null and 0 are false to transformers.
  const auto is_causal = config.find("is_causal");
  if (config.has("is_causal") && !(is_causal && is_causal->text() == "true"))
    config.fail("is_causal",
                "is not true, but attention here is always causal: these weights would not mean "
                "the same");
  const auto pruned = config.find("pruned_heads");
  if (pruned && !pruned->entries().empty())
    pruned->fail(
        "is set, but the model here has all its heads: these weights would not mean the "
        "same");
}

int either(const ForeignConfig& config, const char* key, const char* alias, int fallback) {
  const auto value = config.whole(key), other = config.whole(alias);
  if (value && other && *value != *other)
    config.fail(alias, concat("is ", *other, ", but ", key, ", which means the same, is ", *value,
                              ": leave one of them out"));
  return value ? *value : other.value_or(fallback);
}

LlamaDefaults defaults_of(const std::string& model_type) {
  if (model_type == "mistral")
    return {.hidden = 14336, .positions = 131072, .vocabulary = 32000, .kv_heads = 8};
  if (model_type == kWithBiases)
    return {.hidden = 22016, .positions = 32768, .vocabulary = 151936, .kv_heads = 32};
  return {.hidden = 11008, .positions = 2048, .vocabulary = 32000, .kv_heads = std::nullopt};
}

LlamaSpec read_llama(const ForeignConfig& config) {
  LlamaSpec spec;
  const LlamaDefaults defaults = defaults_of(config.find("model_type")->text());
  spec.blocks = blocks_of(config);
  spec.width = config.whole("hidden_size", 4096);
  spec.heads = config.whole("num_attention_heads", 32);
  // Null means the number of heads; a missing key has a default of its own.
  spec.kv_heads = config.has(kKvHeads) ? config.whole(kKvHeads, spec.heads)
                                       : defaults.kv_heads.value_or(spec.heads);
  spec.hidden = config.whole("intermediate_size", defaults.hidden);
  spec.context = std::min(kDefaultContext, most_positions(config));
  spec.vocabulary = config.whole("vocab_size", defaults.vocabulary);
  spec.tied_head = config.flag("tie_word_embeddings", false);
  spec.norm_epsilon = config.number("rms_norm_eps", 1e-6);
  read_rope(config, spec);
  config.require_whole("head_dim", spec.width / spec.heads);
  config.require("hidden_act", {"silu", "swish"});
  spec.qkv_bias = config.find("model_type")->text() == kWithBiases;
  config.require("attention_bias", {"false"});
  config.require("mlp_bias", {"false"});
  spec.window = window_of(config);
  spec.context = std::min(spec.context, spec.window.value_or(spec.context));
  return spec;
}

int blocks_of(const ForeignConfig& config) {
  return config.whole("num_hidden_layers", 32);
}

std::optional<int> window_of(const ForeignConfig& config) {
  const std::vector<bool> blocks = windowed_blocks(config, blocks_of(config));
  if (std::find(blocks.begin(), blocks.end(), true) == blocks.end()) return std::nullopt;
  // A missing key has transformers' default; null stands for none.
  return config.has(kWindow) ? config.whole(kWindow) : kDefaultWindow;
}

void read_rope(const ForeignConfig& config, LlamaSpec& into) {
  // Since version 5 of transformers the base is among the parameters of scaling.
  const auto newer = config.find("rope_parameters"), older = config.find("rope_scaling");
  if (newer && older && newer->to_yaml() != older->to_yaml())
    config.fail("rope_scaling",
                "differs from rope_parameters, which means the same: leave one of them out");
  const auto node = newer ? newer : older;
  into.rope_base = config.number("rope_theta", 10'000);
  require_whole_heads(config);
  if (!node) return;
  for (const auto& [key, value] : node->entries())
    if (value.kind() == io::Node::Kind::kMap || value.kind() == io::Node::Kind::kList)
      value.fail(concat("is ", value.found(),
                        ", but the model here has one scaling for all its "
                        "layers: these weights would not mean the same"));
  const ForeignConfig rope(*node);
  require_whole_heads(rope);
  into.rope_base = rope.number("rope_theta", into.rope_base);
  const std::string key = rope.find("rope_type") ? "rope_type" : "type";
  rope.require(key, {"default", "linear", "llama3"});
  const std::string kind = rope.find(key) ? rope.find(key)->text() : "default";
  if (kind == "default") return;
  read_scaling(rope, kind, into);
  // transformers 5 prefer the key outside of the scaling.
  if (kind == "llama3") config.require_whole(kOriginal, into.rope_original_context);
}

void read_scaling(const ForeignConfig& rope, const std::string& kind, LlamaSpec& into) {
  into.rope_scaling = kind;
  const std::vector<std::string> needed =
      kind == "linear"
          ? std::vector<std::string>{"factor"}
          : std::vector<std::string>{"factor", "low_freq_factor", "high_freq_factor", kOriginal};
  for (const std::string& each : needed)
    if (!rope.find(each)) rope.fail(each, concat("is missing, but scaling is ", kind));
  into.rope_factor = rope.number("factor", into.rope_factor);
  into.rope_low_turns = rope.number("low_freq_factor", into.rope_low_turns);
  into.rope_high_turns = rope.number("high_freq_factor", into.rope_high_turns);
  into.rope_original_context = rope.whole(kOriginal, into.rope_original_context);
}

void require_whole_heads(const ForeignConfig& config) {
  if (config.number(kPartial, 1) != 1)
    config.fail(kPartial, concat("is ", config.find(kPartial)->text(),
                                 ", must be 1: rotary positions apply to all of a head here"));
}

io::Json json_of(const GptSpec& spec) {
  return {{"architectures", io::Json::array({"GPT2LMHeadModel"})},
          {"model_type", "gpt2"},
          {"n_layer", spec.blocks},
          {"n_embd", spec.width},
          {"n_head", spec.heads},
          {"n_positions", spec.table_rows()},
          {"vocab_size", spec.vocabulary},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", spec.norm_epsilon},
          {"tie_word_embeddings", spec.tied_head},
          {"embd_pdrop", spec.dropout},
          {"resid_pdrop", spec.dropout},
          {"attn_pdrop", 0.0}};
}

io::Json json_of(const LlamaSpec& spec) {
  const std::string name = spec.qkv_bias ? "Qwen2" : "Llama";
  return {{"architectures", io::Json::array({name + "ForCausalLM"})},
          {"model_type", spec.qkv_bias ? kWithBiases : "llama"},
          {"num_hidden_layers", spec.blocks},
          {"hidden_size", spec.width},
          {"num_attention_heads", spec.heads},
          {"num_key_value_heads", spec.key_value_heads()},
          {"intermediate_size", spec.hidden_width()},
          {kPositions, spec.context},
          {"vocab_size", spec.vocabulary},
          {"hidden_act", "silu"},
          {"rms_norm_eps", spec.norm_epsilon},
          {"rope_theta", spec.rope_base},
          {"rope_scaling", rope_scaling_of(spec)},
          {"tie_word_embeddings", spec.tied_head},
          {"attention_bias", false},
          {"mlp_bias", false}};
}

io::Json rope_scaling_of(const LlamaSpec& spec) {
  if (spec.rope_scaling == "none") return nullptr;
  io::Json json{{"rope_type", spec.rope_scaling}, {"factor", spec.rope_factor}};
  if (spec.rope_scaling == "llama3") {
    json["low_freq_factor"] = spec.rope_low_turns;
    json["high_freq_factor"] = spec.rope_high_turns;
    json[kOriginal] = spec.rope_original_context;
  }
  return json;
}

io::Json token_ids(const std::optional<io::Node>& node) {
  if (!node || node->kind() == io::Node::Kind::kNull) return nullptr;
  if (node->kind() != io::Node::Kind::kList) return node->integer(-1, kMostToken);
  io::Json ids = io::Json::array();
  for (const io::Node& id : node->list()) ids.push_back(id.integer(-1, kMostToken));
  return ids;
}

}  // namespace
}  // namespace trireme::config
