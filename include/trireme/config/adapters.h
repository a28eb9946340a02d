// LoRA adapters of a model's linear weights (Hu et al. 2021), and which parameters are trained.
// Files have the format of Hugging Face's peft and can be exchanged with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/io/node.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::config {

/// Files of a folder of adapters: their configuration, and their values.
inline constexpr const char *kAdaptersFile = "adapter_config.json",
                            *kAdaptersValues = "adapter_model.safetensors";

/// Names of an adapter's two matrices, appended to the name of the weight that they adapt.
inline constexpr std::string_view kLoraA = "lora_A", kLoraB = "lora_B";
/// Whether a parameter of this name is an adapter's; files of weights have none.
bool is_adapter(std::string_view name);
/// Name in a file of adapters of the matrix that is `name` among the weights there:
/// "base_model.model.transformer.h.3.attn.c_attn.lora_A.weight".
std::string adapter_name(std::string_view name);

struct Adapters {
  int rank = 0;
  double alpha = 0;
  std::vector<std::string> targets;  ///< as `model.lora_targets` names them

  bool operator==(const Adapters&) const = default;
};

/// A model's adapters; nothing for a model without.
std::optional<Adapters> adapters_of(const ModelSpec& model);
/// Reads an `adapter_config.json` for this model; `alpha` is converted to the scale alpha / rank,
/// whatever its `use_rslora` says. Throws InputError with line and key where it is not LoRA, adapts
/// other weights than those of blocks or not the same ones in every block, or has options that
/// change the meaning of its values: ranks that differ, further weights.
Adapters read_adapters(const io::Node& config, const ModelSpec& model);
/// `lora_dropout`, the share of an adapter's inputs that peft zeroes in training; ignored here.
double adapters_dropout(const io::Node& config);
/// The `adapter_config.json` of a model with adapters, for the weights in `base`.
std::string adapters_config(const ModelSpec& model, const std::string& base);

/// Patterns for the places of the trained parameters; empty: all are trained.
template <class Spec>
std::vector<std::string> trained_patterns(const Spec& spec) {
  if (!spec.trained.empty() || spec.lora_rank == 0) return spec.trained;
  return {"*.lora_A", "*.lora_B"};
}
std::vector<std::string> trained_patterns(const ModelSpec& model);

/// Whether a pattern ("block2?.*") matches a parameter's place in the chain.
bool matches(const std::string& pattern, const std::string& place);
bool matches_one(const std::string& place, const std::vector<std::string>& patterns);

}  // namespace trireme::config
