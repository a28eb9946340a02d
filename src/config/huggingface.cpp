// SPDX-License-Identifier: Apache-2.0
#include "trireme/config/huggingface.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace trireme::config {
namespace {

constexpr std::int64_t kMost = 100'000'000;
/// A llama with biases of queries, keys and values.
constexpr const char* kWithBiases = "qwen2";
/// Of a llama: the longest text that it was trained with.
constexpr const char* kPositions = "max_position_embeddings";
/// Of what a llama was trained with, unless the job says more: activations grow with it.
constexpr int kDefaultContext = 1024;

/// A config.json: keys are optional, most of them say nothing about the numbers.
class Config {
 public:
  explicit Config(const io::Node& node) : node_(node) {}

  /// Nothing for a key that is null, too.
  std::optional<io::Node> find(std::string_view key) const;
  std::optional<int> whole(std::string_view key) const;
  int whole(std::string_view key, int fallback) const { return whole(key).value_or(fallback); }
  double number(std::string_view key, double fallback) const;
  bool flag(std::string_view key, bool fallback) const;
  /// Throws InputError unless the key is one of `known`, the first of which stands for none.
  void require(std::string_view key, const std::vector<std::string>& known) const;
  void require_whole(std::string_view key, int expected) const;

  [[noreturn]] void fail(std::string_view key, const std::string& message) const {
    node_.fail_at(key, message);
  }

 private:
  io::Node node_;
};

GptSpec read_gpt(const Config& config);
LlamaSpec read_llama(const Config& config);
void read_rope(const Config& config, LlamaSpec& into);

using Entries = std::vector<std::pair<std::string, std::string>>;
Entries entries_of(const GptSpec& spec);
Entries entries_of(const LlamaSpec& spec);
std::string rope_scaling_of(const LlamaSpec& spec);
std::string json_of(const Entries& entries, const std::string& indent);

/// One, a list of them, or null.
std::string token_ids(const std::optional<io::Node>& node);

std::string text_of(bool value) {
  return value ? "true" : "false";
}

/// With a point: transformers tell 8 from 8.0.
std::string text_of(double value) {
  const std::string text = to_text(value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

}  // namespace

ModelSpec read_huggingface(const io::Node& node) {
  const Config config(node);
  const std::vector<std::string> kinds{"gpt2", "llama", "mistral", "qwen2"};
  const auto type = config.find("model_type");
  if (!type) config.fail("model_type", concat("is missing, must be one of ", join(kinds, ", ")));
  const std::string kind = type->text();
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
    type->fail(concat("is ", kind, ", must be one of ", join(kinds, ", "),
                      ": other architectures cannot be started from"));
  if (kind == "gpt2") return read_gpt(config);
  return read_llama(config);
}

std::optional<std::string> to_huggingface(const ModelSpec& model,
                                          const std::optional<io::Node>& began_with) {
  Entries entries;
  if (const auto* gpt = std::get_if<GptSpec>(&model)) entries = entries_of(*gpt);
  if (const auto* llama = std::get_if<LlamaSpec>(&model)) entries = entries_of(*llama);
  if (entries.empty()) return std::nullopt;
  // Rotary positions have no end: training on shorter texts takes nothing away.
  const auto most = began_with ? Config(*began_with).whole(kPositions) : std::nullopt;
  for (auto& [key, value] : entries)
    if (key == kPositions && most) value = concat(std::max(*most, std::stoi(value)));
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
    entries.emplace_back(key, began_with ? token_ids(began_with->find(key)) : "null");
  return json_of(entries, "  ") + "\n";
}

namespace {

GptSpec read_gpt(const Config& config) {
  GptSpec spec;
  spec.blocks = config.whole("n_layer", 12);
  spec.width = config.whole("n_embd", 768);
  spec.heads = config.whole("n_head", 12);
  spec.context = config.whole("n_positions", 1024);
  spec.vocabulary = config.whole("vocab_size", 50257);
  spec.tied_head = config.flag("tie_word_embeddings", true);
  spec.norm_epsilon = config.number("layer_norm_epsilon", 1e-5);
  config.require_whole("n_inner", 4 * spec.width);
  config.require("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  config.require("scale_attn_weights", {"true"});
  config.require("scale_attn_by_inverse_layer_idx", {"false"});
  config.require("add_cross_attention", {"false"});
  return spec;
}

LlamaSpec read_llama(const Config& config) {
  LlamaSpec spec;
  spec.blocks = config.whole("num_hidden_layers", 32);
  spec.width = config.whole("hidden_size", 4096);
  spec.heads = config.whole("num_attention_heads", 32);
  spec.kv_heads = config.whole("num_key_value_heads", spec.heads);
  spec.hidden = config.whole("intermediate_size", 11008);
  spec.context = std::min(kDefaultContext, config.whole(kPositions, 2048));
  spec.vocabulary = config.whole("vocab_size", 32000);
  spec.tied_head = config.flag("tie_word_embeddings", false);
  spec.norm_epsilon = config.number("rms_norm_eps", 1e-6);
  read_rope(config, spec);
  config.require_whole("head_dim", spec.width / spec.heads);
  config.require("hidden_act", {"silu"});
  spec.qkv_bias = config.find("model_type")->text() == kWithBiases;
  config.require("attention_bias", {"false"});
  config.require("mlp_bias", {"false"});
  const bool has_window = config.flag("use_sliding_window", !spec.qkv_bias);
  if (has_window && config.find("sliding_window"))
    config.fail("sliding_window", "is set, but every token here sees all before it");
  return spec;
}

void read_rope(const Config& config, LlamaSpec& into) {
  // Since version 5 of transformers the base is among the parameters of scaling.
  const auto node =
      config.find("rope_parameters") ? config.find("rope_parameters") : config.find("rope_scaling");
  into.rope_base = config.number("rope_theta", 10'000);
  if (!node) return;
  const Config rope(*node);
  into.rope_base = rope.number("rope_theta", into.rope_base);
  const std::string key = rope.find("rope_type") ? "rope_type" : "type";
  rope.require(key, {"default", "linear", "llama3"});
  const std::string kind = rope.find(key) ? rope.find(key)->text() : "default";
  if (kind == "default") return;
  into.rope_scaling = kind;
  into.rope_factor = rope.number("factor", into.rope_factor);
  into.rope_low_turns = rope.number("low_freq_factor", into.rope_low_turns);
  into.rope_high_turns = rope.number("high_freq_factor", into.rope_high_turns);
  into.rope_original_context =
      rope.whole("original_max_position_embeddings", into.rope_original_context);
}

Entries entries_of(const GptSpec& spec) {
  return {{"architectures", "[\"GPT2LMHeadModel\"]"},
          {"model_type", "\"gpt2\""},
          {"n_layer", concat(spec.blocks)},
          {"n_embd", concat(spec.width)},
          {"n_head", concat(spec.heads)},
          {"n_positions", concat(spec.context)},
          {"vocab_size", concat(spec.vocabulary)},
          {"activation_function", "\"gelu_new\""},
          {"layer_norm_epsilon", text_of(spec.norm_epsilon)},
          {"tie_word_embeddings", text_of(spec.tied_head)},
          {"embd_pdrop", text_of(spec.dropout)},
          {"resid_pdrop", text_of(spec.dropout)},
          {"attn_pdrop", "0.0"}};
}

Entries entries_of(const LlamaSpec& spec) {
  const std::string name = spec.qkv_bias ? "Qwen2" : "Llama";
  return {{"architectures", concat("[\"", name, "ForCausalLM\"]")},
          {"model_type", io::json_text(spec.qkv_bias ? kWithBiases : "llama")},
          {"num_hidden_layers", concat(spec.blocks)},
          {"hidden_size", concat(spec.width)},
          {"num_attention_heads", concat(spec.heads)},
          {"num_key_value_heads", concat(spec.key_value_heads())},
          {"intermediate_size", concat(spec.hidden_width())},
          {kPositions, concat(spec.context)},
          {"vocab_size", concat(spec.vocabulary)},
          {"hidden_act", "\"silu\""},
          {"rms_norm_eps", text_of(spec.norm_epsilon)},
          {"rope_theta", text_of(spec.rope_base)},
          {"rope_scaling", rope_scaling_of(spec)},
          {"tie_word_embeddings", text_of(spec.tied_head)},
          {"attention_bias", "false"},
          {"mlp_bias", "false"}};
}

std::string rope_scaling_of(const LlamaSpec& spec) {
  if (spec.rope_scaling == "none") return "null";
  Entries entries{{"rope_type", io::json_text(spec.rope_scaling)},
                  {"factor", text_of(spec.rope_factor)}};
  if (spec.rope_scaling == "llama3") {
    entries.emplace_back("low_freq_factor", text_of(spec.rope_low_turns));
    entries.emplace_back("high_freq_factor", text_of(spec.rope_high_turns));
    entries.emplace_back("original_max_position_embeddings", concat(spec.rope_original_context));
  }
  return json_of(entries, "    ");
}

std::string token_ids(const std::optional<io::Node>& node) {
  if (!node || node->kind() == io::Node::Kind::kNull) return "null";
  if (node->kind() != io::Node::Kind::kList) return concat(node->integer(-1, kMost));
  std::vector<std::string> ids;
  for (const io::Node& id : node->list()) ids.push_back(concat(id.integer(-1, kMost)));
  return concat("[", join(ids, ", "), "]");
}

std::string json_of(const Entries& entries, const std::string& indent) {
  std::vector<std::string> lines;
  for (const auto& [key, value] : entries)
    lines.push_back(concat(indent, io::json_text(key), ": ", value));
  return concat("{\n", join(lines, ",\n"), "\n", indent.substr(2), "}");
}

std::optional<io::Node> Config::find(std::string_view key) const {
  const auto found = node_.find(key);
  return found && found->kind() == io::Node::Kind::kNull ? std::nullopt : found;
}

std::optional<int> Config::whole(std::string_view key) const {
  const auto found = find(key);
  if (!found) return std::nullopt;
  return static_cast<int>(found->integer(1, kMost));
}

double Config::number(std::string_view key, double fallback) const {
  const auto found = find(key);
  return found ? found->number(0, 1e12) : fallback;
}

bool Config::flag(std::string_view key, bool fallback) const {
  const auto found = find(key);
  return found ? found->boolean() : fallback;
}

void Config::require(std::string_view key, const std::vector<std::string>& known) const {
  const auto found = find(key);
  if (!found || std::find(known.begin(), known.end(), found->text()) != known.end()) return;
  found->fail(concat("is ", found->text(), ", but the model here is of ", join(known, " or "),
                     ": these weights would not mean the same"));
}

void Config::require_whole(std::string_view key, int expected) const {
  const std::optional<int> found = whole(key);
  if (found && *found != expected)
    fail(key, concat("is ", *found, ", must be ", expected, " for the model here"));
}

}  // namespace
}  // namespace trireme::config
