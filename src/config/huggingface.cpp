// SPDX-License-Identifier: Apache-2.0
#include "trireme/config/huggingface.h"

#include "families.h"
#include "foreign_config.h"

#include "trireme/core/text.h"
#include "trireme/io/json.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace trireme::config {
namespace {

constexpr std::int64_t kMostToken = 100'000'000;
constexpr const char *kGpt2 = "gpt2", *kPositions = "max_position_embeddings";

GptSpec read_gpt(const ForeignConfig& config);
/// Throws InputError for a `model_type` that is none of `kinds`.
[[noreturn]] void refuse_kind(const io::Node& type, const std::vector<std::string>& kinds);
/// Throws InputError for settings of any model that change what its weights mean.
void require_plain(const ForeignConfig& config);
/// A number that config.json may give by either of two names.
int either(const ForeignConfig& config, const char* key, const char* alias, int fallback);

io::Json json_of(const GptSpec& spec);
/// The config.json of the family that the weights were of, if it has all parts of the model, else
/// of the first that has; null where none does.
io::Json json_of(const LlamaSpec& spec, const std::optional<io::Node>& began_with);

/// One token id, a list of them, or null.
io::Json token_ids(const std::optional<io::Node>& node);

}  // namespace

ModelSpec read_huggingface(const io::Node& node) {
  const ForeignConfig config(node);
  std::vector<std::string> kinds{kGpt2};
  for (const Family& family : families()) kinds.emplace_back(family.model_type);
  const auto type = config.find("model_type");
  if (!type) config.fail("model_type", concat("is missing, must be one of ", join(kinds, ", ")));
  const std::string kind = type->text();
  const Family* const family = family_of(kind);
  if (kind != kGpt2 && family == nullptr) refuse_kind(*type, kinds);
  require_plain(config);
  if (family == nullptr) return read_gpt(config);
  return read_as(*family, config);
}

std::optional<std::string> to_huggingface(const ModelSpec& model,
                                          const std::optional<io::Node>& began_with) {
  io::Json json;
  if (const auto* gpt = std::get_if<GptSpec>(&model)) json = json_of(*gpt);
  if (const auto* llama = std::get_if<LlamaSpec>(&model)) json = json_of(*llama, began_with);
  if (json.is_null()) return std::nullopt;
  // Rotary positions are unbounded: training on shorter texts keeps the longest text.
  const auto most = began_with ? ForeignConfig(*began_with).whole(kPositions) : std::nullopt;
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

void refuse_kind(const io::Node& type, const std::vector<std::string>& kinds) {
  // Models of images and text: their text part is a model of its own.
  for (const std::string& kind : kinds)
    if (kind == type.text() + "_text")
      type.fail(concat("is ", type.text(),
                       ", a model with images, must be that of its text alone, ", kind));
  type.fail(concat("is ", type.text(), ", must be one of ", join(kinds, ", "),
                   ": other architectures are not supported"));
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

io::Json json_of(const LlamaSpec& spec, const std::optional<io::Node>& began_with) {
  const auto type = began_with ? began_with->find("model_type") : std::nullopt;
  const Family* const origin = type ? family_of(type->text()) : nullptr;
  if (origin != nullptr)
    if (const auto json = written_as(*origin, spec)) return *json;
  for (const Family& family : families())
    if (const auto json = written_as(family, spec)) return *json;
  return nullptr;
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
