// SPDX-License-Identifier: Apache-2.0
#include "family_words.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace trireme::config {
namespace {

constexpr const char *kWindow = "sliding_window", *kUsesWindow = "use_sliding_window",
                     *kLayerTypes = "layer_types", *kSliding = "sliding_attention",
                     *kFull = "full_attention", *kQueryScalar = "query_pre_attn_scalar",
                     *kAttentionCap = "attn_logit_softcapping",
                     *kLogitsCap = "final_logit_softcapping", *kUnrotated = "no_rope_layers",
                     *kBidirectional = "use_bidirectional_attention",
                     *kWindowPattern = "sliding_window_pattern";
/// Default sliding window of all families that have one but phi3 and smollm3.
constexpr int kDefaultWindow = 4096;

/// Which blocks have a sliding window by `layer_types`; nothing where the key is missing.
std::optional<std::vector<bool>> read_layer_types(const ForeignConfig& config, int blocks);
io::Json layer_types_of(const LlamaSpec& spec);
/// Gives the blocks that are `windowed` the window that config.json names.
void read_window(const ForeignConfig& config, const std::vector<bool>& windowed,
                 std::optional<int> fallback, LlamaSpec& into);
io::Json window_of(const LlamaSpec& spec);

/// Whether each block has a window, by a rule on its number.
template <class Rule>
std::vector<bool> by_block(const LlamaSpec& spec, const Rule& rule) {
  std::vector<bool> all;
  for (int block = 0; block < spec.blocks; ++block) all.push_back(rule(block));
  return all;
}

}  // namespace

void read_mistral(const ForeignConfig& config, LlamaSpec& into) {
  read_window(config, by_block(into, [](int) { return true; }), kDefaultWindow, into);
}

void write_mistral(const LlamaSpec& spec, io::Json& into) {
  into[kWindow] = window_of(spec);
}

void read_qwen(const ForeignConfig& config, LlamaSpec& into) {
  if (!config.flag(kUsesWindow, false)) return;
  const auto types = read_layer_types(config, into.blocks);
  const int first = config.count("max_window_layers", 28);
  read_window(config, types ? *types : by_block(into, [&](int block) { return block >= first; }),
              kDefaultWindow, into);
}

void write_qwen(const LlamaSpec& spec, io::Json& into) {
  if (!spec.window) return;
  into[kUsesWindow] = true;
  into[kWindow] = window_of(spec);
  into[kLayerTypes] = layer_types_of(spec);
}

void read_granite(const ForeignConfig& config, LlamaSpec& into) {
  into.attention_scale = config.number("attention_multiplier", 1);
  into.embedding_scale = config.number("embedding_multiplier", 1);
  into.residual_scale = config.number("residual_multiplier", 1);
  into.logits_divisor = config.number("logits_scaling", 1);
}

void write_granite(const LlamaSpec& spec, io::Json& into) {
  into["attention_multiplier"] = spec.score_scale();
  into["embedding_multiplier"] = spec.embedding_scale;
  into["residual_multiplier"] = spec.residual_scale;
  into["logits_scaling"] = spec.logits_divisor;
}

void read_smollm3(const ForeignConfig& config, LlamaSpec& into) {
  const auto rotated = config.find(kUnrotated);
  const int interval = config.whole("no_rope_layer_interval", 4);
  if (rotated) config.require_entries(kUnrotated, into.blocks);
  for (int block = 0; block < into.blocks; ++block) {
    const bool is_rotated =
        rotated ? rotated->list()[static_cast<std::size_t>(block)].integer(0, 1) == 1
                : (block + 1) % interval != 0;
    if (!is_rotated) into.unrotated_blocks.push_back(block);
  }
  const auto types = read_layer_types(config, into.blocks);
  const bool has_windows = config.flag(kUsesWindow, false);
  if (!has_windows && types && std::find(types->begin(), types->end(), true) != types->end())
    config.fail(kLayerTypes, concat("has ", kSliding, ", but ", kUsesWindow,
                                    " is false: set one of them as the other says"));
  if (!has_windows) return;
  read_window(config,
              types ? *types : by_block(into, [&](int block) { return !into.is_rotated(block); }),
              std::nullopt, into);
}

void write_smollm3(const LlamaSpec& spec, io::Json& into) {
  into[kUnrotated] = io::Json::array();
  for (int block = 0; block < spec.blocks; ++block)
    into[kUnrotated].push_back(spec.is_rotated(block) ? 1 : 0);
  into[kUsesWindow] = spec.window.has_value();
  into[kWindow] = window_of(spec);
  into[kLayerTypes] = layer_types_of(spec);
}

void read_phi3(const ForeignConfig& config, LlamaSpec& into) {
  read_window(config, by_block(into, [](int) { return true; }), std::nullopt, into);
}

void write_phi3(const LlamaSpec& spec, io::Json& into) {
  into[kWindow] = window_of(spec);
}

void read_gemma(const ForeignConfig& config, LlamaSpec& into) {
  config.require(kBidirectional, {"false"});
  // Early releases say gelu, and mean what hidden_activation says later.
  config.require("hidden_activation", {"gelu_pytorch_tanh"});
  if (into.activation == "gelu") into.activation = "gelu_tanh";
  into.embedding_scale = std::sqrt(into.width);
}

void read_gemma2(const ForeignConfig& config, LlamaSpec& into) {
  const auto cap = [&](const char* key, double fallback) {
    return config.has(key) ? config.number(key, 0) : fallback;
  };
  config.require(kBidirectional, {"false"});
  into.embedding_scale = std::sqrt(into.width);
  into.attention_scale = 1 / std::sqrt(config.whole(kQueryScalar, 256));
  into.attention_cap = cap(kAttentionCap, 50);
  into.logits_cap = cap(kLogitsCap, 30);
  const auto types = read_layer_types(config, into.blocks);
  read_window(config, types ? *types : by_block(into, [](int block) { return block % 2 == 0; }),
              kDefaultWindow, into);
}

/// Caps and the scale of attention, as gemma 2 and 3 say them.
void write_gemma2(const LlamaSpec& spec, io::Json& into) {
  const auto cap = [](double value) { return value > 0 ? io::Json(value) : io::Json(); };
  into[kQueryScalar] = std::llround(1 / (spec.score_scale() * spec.score_scale()));
  into[kAttentionCap] = cap(spec.attention_cap);
  into[kLogitsCap] = cap(spec.logits_cap);
  into[kWindow] = window_of(spec);
  into[kLayerTypes] = layer_types_of(spec);
}

void read_gemma3(const ForeignConfig& config, LlamaSpec& into) {
  config.require(kBidirectional, {"false"});
  into.embedding_scale = std::sqrt(into.width);
  into.attention_scale = 1 / std::sqrt(config.whole(kQueryScalar, 256));
  if (const auto cap = config.find(kAttentionCap))
    cap->fail(concat("is ", cap->text(),
                     ", must be null: transformers do not cap the attention of a gemma 3"));
  into.logits_cap = config.number(kLogitsCap, 0);
  const auto types = read_layer_types(config, into.blocks);
  const int pattern = config.whole(kWindowPattern, 6);
  read_window(
      config,
      types ? *types : by_block(into, [&](int block) { return (block + 1) % pattern != 0; }),
      kDefaultWindow, into);
}

void write_gemma3(const LlamaSpec& spec, io::Json& into) {
  write_gemma2(spec, into);
  into[kAttentionCap] = nullptr;
}

namespace {

std::optional<std::vector<bool>> read_layer_types(const ForeignConfig& config, int blocks) {
  const auto types = config.find(kLayerTypes);
  if (!types) return std::nullopt;
  config.require_entries(kLayerTypes, blocks);
  std::vector<bool> windowed;
  for (const io::Node& type : types->list())
    windowed.push_back(type.choice({kFull, kSliding}) == kSliding);
  return windowed;
}

io::Json layer_types_of(const LlamaSpec& spec) {
  io::Json types = io::Json::array();
  for (int block = 0; block < spec.blocks; ++block)
    types.push_back(spec.window_of(block) ? kSliding : kFull);
  return types;
}

void read_window(const ForeignConfig& config, const std::vector<bool>& windowed,
                 std::optional<int> fallback, LlamaSpec& into) {
  const auto count = std::count(windowed.begin(), windowed.end(), true);
  // A missing key has transformers' default; null stands for none.
  const std::optional<int> window = config.has(kWindow) ? config.whole(kWindow) : fallback;
  if (count == 0 || !window) return;
  into.window = window;
  if (std::cmp_equal(count, windowed.size())) return;
  for (int block = 0; block < into.blocks; ++block)
    if (windowed[static_cast<std::size_t>(block)]) into.window_blocks.push_back(block);
}

io::Json window_of(const LlamaSpec& spec) {
  return spec.window ? io::Json(*spec.window) : io::Json();
}

}  // namespace
}  // namespace trireme::config
