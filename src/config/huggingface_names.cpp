// SPDX-License-Identifier: Apache-2.0
#include "built_in.h"

#include "trireme/config/huggingface.h"
#include "trireme/core/text.h"

#include <span>
#include <variant>

namespace trireme::config {
namespace {

using Renaming = WeightNames::Renaming;

constexpr Renaming kGpt[] = {
    {"embedding.token.", "transformer.wte."},
    {.ours = "embedding.position.", .theirs = "transformer.wpe.", .rows_key = "model.positions"},
    {"block#.attention.norm.", "transformer.h.#.ln_1."},
    {"block#.attention.qkv.", "transformer.h.#.attn.c_attn.", true},
    {"block#.attention.projection.", "transformer.h.#.attn.c_proj.", true},
    {"block#.mlp.norm.", "transformer.h.#.ln_2."},
    {"block#.mlp.up.", "transformer.h.#.mlp.c_fc.", true},
    {"block#.mlp.down.", "transformer.h.#.mlp.c_proj.", true},
    {"head.norm.", "transformer.ln_f."},
    {"head.output.", "lm_head."},
};
constexpr std::string_view kOutput = "lm_head.weight";
/// Tensors that older files hold in addition to the parameters. "#" stands for a block's number.
struct ExtraName {
  std::string_view kind, name;
  Extra extra;
};
constexpr ExtraName kExtras[] = {
    {"gpt", "transformer.h.#.attn.bias", Extra::kCausalMask},
    {"gpt", "transformer.h.#.attn.masked_bias", Extra::kMaskedScore},
    {"llama", "model.layers.#.self_attn.rotary_emb.inv_freq", Extra::kAngles},
    {"llama", "model.rotary_emb.inv_freq", Extra::kAngles},
};

/// Whether `name` is `pattern` with a number in place of "#".
bool is_numbered(std::string_view name, std::string_view pattern) {
  const std::size_t place = pattern.find('#');
  if (place == std::string_view::npos) return name == pattern;
  const std::string_view begin = pattern.substr(0, place), end = pattern.substr(place + 1);
  if (!name.starts_with(begin) || !name.ends_with(end) || name.size() < pattern.size())
    return false;
  const std::string_view number =
      name.substr(begin.size(), name.size() - begin.size() - end.size());
  return number.find_first_not_of("0123456789") == std::string_view::npos;
}

/// "block12.mlp.up.weight" with its number split off: "12" and "block#.mlp.up.weight".
struct Numbered {
  std::string number, name;
};

Numbered without_number(std::string_view name) {
  constexpr std::string_view kBlock = "block";
  if (!name.starts_with(kBlock)) return {.number = {}, .name = std::string(name)};
  const std::size_t end = name.find('.');
  return {.number = std::string(name.substr(kBlock.size(), end - kBlock.size())),
          .name = concat("block#", name.substr(end))};
}

std::vector<Renaming> table_of(const LlamaSpec& spec) {
  const bool has_before = spec.norms != "after", has_after = spec.norms != "before";
  std::vector<Renaming> table{{"embedding.token.", "model.embed_tokens."}};
  const auto add = [&](bool is_there, std::vector<Renaming> entries) {
    if (is_there) table.insert(table.end(), entries.begin(), entries.end());
  };
  add(has_before, {{"block#.attention.norm.", "model.layers.#.input_layernorm."}});
  add(spec.fused_linears, {{"block#.attention.qkv.", "model.layers.#.self_attn.qkv_proj."}});
  add(!spec.fused_linears, {{"block#.attention.q.", "model.layers.#.self_attn.q_proj."},
                            {"block#.attention.k.", "model.layers.#.self_attn.k_proj."},
                            {"block#.attention.v.", "model.layers.#.self_attn.v_proj."}});
  add(spec.qk_norm != "none", {{"block#.attention.q_norm.", "model.layers.#.self_attn.q_norm."},
                               {"block#.attention.k_norm.", "model.layers.#.self_attn.k_norm."}});
  add(true, {{"block#.attention.projection.", "model.layers.#.self_attn.o_proj."}});
  add(has_after, {{"block#.attention.after_norm.", "model.layers.#.post_attention_layernorm."}});
  // Without a norm after it, the attention gives its name to the norm before the MLP.
  add(has_before, {{"block#.mlp.norm.", has_after ? "model.layers.#.pre_feedforward_layernorm."
                                                  : "model.layers.#.post_attention_layernorm."}});
  add(spec.fused_linears, {{"block#.mlp.gate_up.", "model.layers.#.mlp.gate_up_proj."}});
  add(!spec.fused_linears, {{"block#.mlp.gate.", "model.layers.#.mlp.gate_proj."},
                            {"block#.mlp.up.", "model.layers.#.mlp.up_proj."}});
  add(true, {{"block#.mlp.down.", "model.layers.#.mlp.down_proj."}});
  add(has_after, {{"block#.mlp.after_norm.", "model.layers.#.post_feedforward_layernorm."}});
  add(true, {{"head.norm.", "model.norm."}, {"head.output.", "lm_head."}});
  return table;
}

std::vector<Renaming> table_of(const ModelSpec& model) {
  if (std::holds_alternative<GptSpec>(model)) return {std::begin(kGpt), std::end(kGpt)};
  if (const auto* const llama = std::get_if<LlamaSpec>(&model)) return table_of(*llama);
  return {};
}

WeightPlace renamed(std::string_view name, std::span<const Renaming> table) {
  const Numbered from = without_number(name);
  for (const Renaming& entry : table) {
    if (!from.name.starts_with(entry.ours)) continue;
    const std::string rest = from.name.substr(entry.ours.size());
    std::string to = concat(entry.theirs, rest);
    if (const std::size_t place = to.find('#'); place != std::string::npos)
      to.replace(place, 1, from.number);
    return {.name = to,
            .is_transposed = entry.is_transposed && rest == "weight",
            .rows_key = entry.rows_key};
  }
  return {.name = std::string(name)};
}

}  // namespace

WeightNames::WeightNames(const ModelSpec& model) : kind_(kind_of(model)), table_(table_of(model)) {
  std::visit(
      [this](const auto& spec) {
        if constexpr (requires { spec.grain; }) is_fine_ = spec.grain == "fine";
        if constexpr (requires { spec.tied_head; }) is_tied_ = spec.tied_head;
      },
      model);
  const auto* const script = std::get_if<TorchScriptSpec>(&model);
  if (script == nullptr) return;
  const auto place_in_file = [](std::string place) {
    return place.replace(place.find('/'), 1, ".");
  };
  for (const std::vector<std::string>& uses : script->tied)
    for (const std::string& use : uses)
      if (use.find('/') != std::string::npos)
        tied_.emplace(place_in_file(use), place_in_file(uses.front()));
}

std::vector<std::pair<std::string, std::string>> linear_modules(const ModelSpec& model) {
  constexpr std::string_view kBlock = "block#.", kThere = "#.";
  std::vector<std::pair<std::string, std::string>> modules;
  for (const Renaming& entry : table_of(model)) {
    if (!entry.ours.starts_with(kBlock) || entry.ours.ends_with("norm.")) continue;
    const std::string_view ours = entry.ours.substr(0, entry.ours.size() - 1);
    const std::string_view theirs = entry.theirs.substr(0, entry.theirs.size() - 1);
    modules.emplace_back(ours.substr(ours.rfind('.') + 1),
                         theirs.substr(theirs.find(kThere) + kThere.size()));
  }
  return modules;
}

std::string module_of_block(const ModelSpec& model, int block) {
  return concat(std::holds_alternative<GptSpec>(model) ? "transformer.h." : "model.layers.", block,
                ".");
}

std::vector<std::string> other_modules(const ModelSpec& model) {
  std::vector<std::string> modules;
  for (const Renaming& entry : table_of(model))
    if (entry.theirs.find('#') == std::string_view::npos)
      modules.emplace_back(entry.theirs.substr(0, entry.theirs.size() - 1));
  return modules;
}

std::string WeightNames::place_of(std::string_view layer, std::string_view name) const {
  // A fine layer "block3.mlp.up" is a part of "block3.mlp", after which its parameters are named.
  const bool is_part = is_fine_ && layer.starts_with("block");
  const std::string place = concat(is_part ? layer.substr(0, layer.rfind('.')) : layer, ".", name);
  if (const auto first = tied_.find(place); first != tied_.end()) return first->second;
  return is_tied_ && place == "head.output.weight" ? "embedding.token.weight" : place;
}

WeightPlace WeightNames::of(std::string_view layer, std::string_view name) const {
  const std::string place = place_of(layer, name);
  return renamed(place, table_);
}

std::string WeightNames::with_head(std::string_view name) const {
  if (name == kOutput) return std::string(name);
  const std::string_view body = kind_ == "gpt" ? "transformer." : kind_ == "llama" ? "model." : "";
  return name.starts_with(body) ? std::string(name) : concat(body, name);
}

Extra WeightNames::extra(std::string_view name) const {
  if (is_tied_ && name == kOutput) return Extra::kTiedHead;
  for (const ExtraName& each : kExtras)
    if (each.kind == kind_ && is_numbered(name, each.name)) return each.extra;
  return Extra::kNone;
}

}  // namespace trireme::config
