// SPDX-License-Identifier: Apache-2.0
#include "trireme/config/adapters.h"

#include "adapter_targets.h"
#include "foreign_config.h"

#include "trireme/config/huggingface.h"
#include "trireme/core/text.h"
#include "trireme/io/json.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <variant>

namespace trireme::config {
namespace {

constexpr const char *kRank = "r", *kAlpha = "lora_alpha", *kTargets = "target_modules",
                     *kInitial = "init_lora_weights", *kRootScale = "use_rslora",
                     *kDropout = "lora_dropout";
/// Keys of an adapter_config.json that are read, and those that do not change what its values mean.
/// Any other key that is set is an unsupported option.
const std::set<std::string, std::less<>> kRead{"peft_type",
                                               "bias",
                                               kRank,
                                               kAlpha,
                                               kTargets,
                                               "exclude_modules",
                                               "layers_to_transform",
                                               kInitial,
                                               "layers_pattern",
                                               kRootScale,
                                               kDropout};
const std::set<std::string, std::less<>> kWithoutMeaning{
    "auto_mapping",      "base_model_name_or_path",
    "corda_config",      "eva_config",
    "fan_in_fan_out",    "inference_mode",
    "loftq_config",      "lora_ga_config",
    "megatron_core",     "peft_version",
    "qalora_group_size", "revision",
    "runtime_config",    "task_type"};

/// Neither null, false, zero, nor empty.
bool is_set(const io::Node& node) {
  switch (node.kind()) {
    case io::Node::Kind::kNull:
      return false;
    case io::Node::Kind::kList:
      return !node.list().empty();
    case io::Node::Kind::kMap:
      return !node.entries().empty();
    case io::Node::Kind::kScalar:
      return node.text() != "false" && node.text() != "0" && !node.text().empty();
  }
  return true;
}

/// Without a point where it may be: peft has whole numbers for alpha.
io::Json whole_or_not(double value) {
  if (value == std::floor(value)) return static_cast<std::int64_t>(value);
  return value;
}

}  // namespace

bool is_adapter(std::string_view name) {
  return name.ends_with(concat(".", kLoraA)) || name.ends_with(concat(".", kLoraB));
}

std::string adapter_name(std::string_view name) {
  return concat("base_model.model.", name, ".weight");
}

std::optional<Adapters> adapters_of(const ModelSpec& model) {
  return std::visit(
      [&](const auto& spec) -> std::optional<Adapters> {
        if constexpr (requires { spec.lora_rank; }) {
          if (spec.lora_rank == 0) return std::nullopt;
          Adapters adapters{.rank = spec.lora_rank, .alpha = spec.lora_alpha, .targets = {}};
          for (const auto& [ours, theirs] : linear_modules(model)) {
            const auto& only = spec.lora_targets;
            if (only.empty() || std::find(only.begin(), only.end(), ours) != only.end())
              adapters.targets.push_back(ours);
          }
          return adapters;
        } else {
          return std::nullopt;
        }
      },
      model);
}

Adapters read_adapters(const io::Node& node, const ModelSpec& model) {
  const ForeignConfig config(node);
  config.require("peft_type", {"LORA"});
  config.require("bias", {"none"});
  // Other initializations change the base weights, too.
  config.require(kInitial, {"true", "false", "gaussian", "orthogonal", "eva"});
  for (const auto& [key, value] : node.entries())
    if (!kRead.contains(key) && !kWithoutMeaning.contains(key) && is_set(value))
      value.fail("is set, which is not supported here: their values would mean something else");
  const auto rank = config.whole(kRank);
  if (!rank) config.fail(kRank, "is missing: the adapters' rank");
  double alpha = config.number(kAlpha, 8);
  // Values are scaled by alpha / rank here, by alpha / sqrt(rank) in rsLoRA (Kalajdzievski 2023).
  if (config.flag(kRootScale, false)) alpha *= std::sqrt(*rank);
  return {.rank = *rank, .alpha = alpha, .targets = adapter_targets(node, model)};
}

double adapters_dropout(const io::Node& config) {
  return ForeignConfig(config).number(kDropout, 0);
}

std::string adapters_config(const ModelSpec& model, const std::string& base) {
  const Adapters adapters = adapters_of(model).value();
  io::Json modules = io::Json::array();
  for (const auto& [ours, theirs] : linear_modules(model))
    if (std::find(adapters.targets.begin(), adapters.targets.end(), ours) != adapters.targets.end())
      modules.push_back(theirs);
  return io::document({{"peft_type", "LORA"},
                       {"task_type", "CAUSAL_LM"},
                       {"base_model_name_or_path", base},
                       {kRank, adapters.rank},
                       {kAlpha, whole_or_not(adapters.alpha)},
                       {kTargets, std::move(modules)},
                       {kDropout, 0.0},
                       {"bias", "none"},
                       {"fan_in_fan_out", std::holds_alternative<GptSpec>(model)},
                       {"inference_mode", true}});
}

std::vector<std::string> trained_patterns(const ModelSpec& model) {
  return std::visit(
      [](const auto& spec) {
        if constexpr (requires { spec.lora_rank; })
          return trained_patterns(spec);
        else
          return std::vector<std::string>();
      },
      model);
}

bool matches(const std::string& pattern, const std::string& place) {
  return fnmatch(pattern.c_str(), place.c_str(), 0) == 0;
}

bool matches_one(const std::string& place, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches(pattern, place); });
}

}  // namespace trireme::config
