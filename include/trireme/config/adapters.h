// Adapters of low rank beside a model's linear weights (Hu et al. 2021, LoRA), and what is trained.
// In files they are as Hugging Face's peft has them, so that they can come from there and go there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"
#include "trireme/io/node.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::config {

/// In a folder of adapters: what they are, and their values.
inline constexpr const char *kAdaptersFile = "adapter_config.json",
                            *kAdaptersValues = "adapter_model.safetensors";

/// What an adapter's two matrices are called behind the name of the weight that they stand beside.
inline constexpr std::string_view kLoraA = "lora_A", kLoraB = "lora_B";
/// Whether a parameter of this name is an adapter's: files of weights do not know it.
bool is_adapter(std::string_view name);
/// What a file of adapters calls the one that is `name` beside the weights there:
/// "base_model.model.transformer.h.3.attn.c_attn.lora_A.weight".
std::string adapter_name(std::string_view name);

struct Adapters {
  int rank = 0;
  double alpha = 0;
  std::vector<std::string> targets;  ///< as `model.lora_targets` names them

  bool operator==(const Adapters&) const = default;
};

/// Those of a model; nothing for a model without.
std::optional<Adapters> adapters_of(const ModelSpec& model);
/// Reads an `adapter_config.json` for this model; `alpha` is the one that scales by alpha / rank,
/// whatever its `use_rslora` says. Throws InputError with line and key where it is not of low rank,
/// stands beside other weights than those of blocks or not beside the same of every block, or asks
/// for what changes the meaning of its values: ranks that differ, further weights.
Adapters read_adapters(const io::Node& config, const ModelSpec& model);
/// The share of an adapter's inputs that peft zeroes in training, and training here does not.
double adapters_dropout(const io::Node& config);
/// The `adapter_config.json` of a model that has adapters, beside the weights in `base`.
std::string adapters_config(const ModelSpec& model, const std::string& base);

/// Patterns of the places of the parameters that are trained; empty: all of them.
template <class Spec>
std::vector<std::string> trained_patterns(const Spec& spec) {
  if (!spec.trained.empty() || spec.lora_rank == 0) return spec.trained;
  return {"*.lora_A", "*.lora_B"};
}
std::vector<std::string> trained_patterns(const ModelSpec& model);

/// Whether a pattern ("block2?.*") means a parameter's place in the chain.
bool matches(const std::string& pattern, const std::string& place);
bool matches_one(const std::string& place, const std::vector<std::string>& patterns);

}  // namespace trireme::config
