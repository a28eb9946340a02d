// SPDX-License-Identifier: Apache-2.0
#include "rope_words.h"

#include "trireme/core/text.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::config {
namespace {

constexpr const char *kBase = "rope_theta", *kWindowBase = "rope_local_base_freq",
                     *kScaling = "rope_scaling", *kParameters = "rope_parameters",
                     *kPartial = "partial_rotary_factor", *kFactor = "factor",
                     *kLowFactor = "low_freq_factor", *kHighFactor = "high_freq_factor",
                     *kSlow = "beta_slow", *kFast = "beta_fast",
                     *kAttentionFactor = "attention_factor",
                     *kOriginal = "original_max_position_embeddings", *kFull = "full_attention",
                     *kSliding = "sliding_attention";
/// Base of the windowed blocks of a gemma 3 that names none.
constexpr double kDefaultWindowBase = 10'000;
/// Turns over the original context above which yarn leaves a pair as it is, where none are named.
constexpr double kYarnHighTurns = 32;

/// The map of scaling, by either of its names.
std::optional<io::Node> parameters_of(const ForeignConfig& config);
void read_parameters(const ForeignConfig& config, const io::Node& node, const RopeWords& words,
                     LlamaSpec& into);
void read_by_layer(const ForeignConfig& config, const RopeWords& words, LlamaSpec& into);
void read_fraction(const ForeignConfig& config, const RopeWords& words, LlamaSpec& into);
void read_scaling(const ForeignConfig& rope, LlamaSpec& into);
void read_yarn(const ForeignConfig& rope, LlamaSpec& into);
/// Throws InputError unless all values are single ones.
void require_flat(const io::Node& rope);

}  // namespace

void read_rope(const ForeignConfig& config, const RopeWords& words, LlamaSpec& into) {
  into.rope_base = config.number(kBase, words.base);
  read_fraction(config, words, into);
  if (words.is_by_layer) {
    read_by_layer(config, words, into);
  } else if (const auto node = parameters_of(config)) {
    read_parameters(config, *node, words, into);
  }
}

void write_rope(const LlamaSpec& spec, const RopeWords& words, io::Json& into) {
  into[kBase] = spec.rope_base;
  into[kScaling] = nullptr;
  if (words.is_by_layer) into[kWindowBase] = spec.window_rope_base.value_or(spec.rope_base);
  if (words.may_be_partial) into[kPartial] = spec.rope_fraction;
  if (spec.rope_scaling == "none") return;
  io::Json scaling{{"rope_type", spec.rope_scaling}, {kFactor, spec.rope_factor}};
  if (spec.rope_scaling != "linear") scaling[kOriginal] = spec.rope_original_context;
  if (spec.rope_scaling == "llama3") {
    scaling[kLowFactor] = spec.rope_low_turns;
    scaling[kHighFactor] = spec.rope_high_turns;
  }
  if (spec.rope_scaling == "yarn") {
    scaling[kSlow] = spec.rope_low_turns;
    scaling[kFast] = spec.rope_high_turns;
    scaling[kAttentionFactor] = spec.rope_attention_factor;
  }
  into[kScaling] = std::move(scaling);
}

namespace {

std::optional<io::Node> parameters_of(const ForeignConfig& config) {
  // Since version 5 of transformers the base is among the parameters of scaling.
  const auto newer = config.find(kParameters), older = config.find(kScaling);
  if (newer && older && newer->to_yaml() != older->to_yaml())
    config.fail(kScaling, concat("differs from ", kParameters,
                                 ", which means the same: leave one of them out"));
  return newer ? newer : older;
}

void require_flat(const io::Node& rope) {
  for (const auto& [key, value] : rope.entries())
    if (value.kind() == io::Node::Kind::kMap || value.kind() == io::Node::Kind::kList)
      value.fail(concat("is ", value.found(),
                        ", but the model here has one scaling for all its "
                        "layers: these weights would not mean the same"));
}

void read_by_layer(const ForeignConfig& config, const RopeWords& words, LlamaSpec& into) {
  into.window_rope_base = config.number(kWindowBase, kDefaultWindowBase);
  if (const auto older = config.find(kScaling)) read_parameters(config, *older, words, into);
  const auto newer = config.find(kParameters);
  if (!newer) return;
  for (const auto& [kind, node] : newer->entries()) {
    if (node.kind() != io::Node::Kind::kMap || (kind != kFull && kind != kSliding))
      node.fail(concat("is ", node.found(), ", must be the parameters of ", kFull, " or of ",
                       kSliding, ": this family has them by kind of layer"));
    if (kind == kFull) {
      read_parameters(config, node, words, into);
    } else {
      const ForeignConfig rope(node);
      rope.require("rope_type", {"default"});
      into.window_rope_base = rope.number(kBase, *into.window_rope_base);
    }
  }
}

void read_parameters(const ForeignConfig& config, const io::Node& node, const RopeWords& words,
                     LlamaSpec& into) {
  const ForeignConfig rope(node);
  const std::string key = rope.find("rope_type") ? "rope_type" : "type";
  rope.require(key, split(words.kinds, ' '));
  require_flat(node);
  read_fraction(rope, words, into);
  into.rope_base = rope.number(kBase, into.rope_base);
  const std::string kind = rope.find(key) ? rope.find(key)->text() : "default";
  if (kind == "default") return;
  into.rope_scaling = kind;
  read_scaling(rope, into);
  // transformers 5 prefer the key outside of the scaling.
  if (kind != "linear") config.require_whole(kOriginal, into.rope_original_context);
}

void read_fraction(const ForeignConfig& config, const RopeWords& words, LlamaSpec& into) {
  const auto found = config.find(kPartial);
  if (!found) return;
  into.rope_fraction = config.number(kPartial, 1);
  if (into.rope_fraction != 1 && !words.may_be_partial)
    found->fail(concat("is ", found->text(),
                       ", must be 1: rotary positions apply to all of a head in this family"));
}

void read_scaling(const ForeignConfig& rope, LlamaSpec& into) {
  const std::vector<std::string> needed =
      into.rope_scaling == "linear" ? std::vector<std::string>{kFactor}
      : into.rope_scaling == "yarn"
          ? std::vector<std::string>{kFactor, kOriginal}
          : std::vector<std::string>{kFactor, kLowFactor, kHighFactor, kOriginal};
  for (const std::string& each : needed)
    if (!rope.find(each)) rope.fail(each, concat("is missing, but scaling is ", into.rope_scaling));
  into.rope_factor = rope.number(kFactor, into.rope_factor);
  into.rope_original_context = rope.whole(kOriginal, into.rope_original_context);
  if (into.rope_scaling == "llama3") {
    into.rope_low_turns = rope.number(kLowFactor, into.rope_low_turns);
    into.rope_high_turns = rope.number(kHighFactor, into.rope_high_turns);
  }
  if (into.rope_scaling == "yarn") read_yarn(rope, into);
}

void read_yarn(const ForeignConfig& rope, LlamaSpec& into) {
  rope.require("truncate", {"true"});
  into.rope_low_turns = rope.number(kSlow, into.rope_low_turns);
  into.rope_high_turns = rope.number(kFast, kYarnHighTurns);
  // Peng et al. 2023, eq. 22; the two factors are DeepSeek's.
  const auto factor = [&](double share) {
    return into.rope_factor <= 1 ? 1.0 : 0.1 * share * std::log(into.rope_factor) + 1;
  };
  const double above = rope.number("mscale", 0), below = rope.number("mscale_all_dim", 0);
  const double inferred = above > 0 && below > 0 ? factor(above) / factor(below) : factor(1);
  into.rope_attention_factor = rope.number(kAttentionFactor, inferred);
}

}  // namespace
}  // namespace trireme::config
