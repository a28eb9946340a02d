// Translates keys and words of other programs (PyTorch, Megatron-LM, DeepSpeed, transformers).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::config {

/// The full key that `word` stands for: "train.optimizer.learning_rate" for "lr" of PyTorch,
/// Megatron-LM, DeepSpeed or transformers, also for a key of that name in another section. Empty
/// where there is none, or several.
std::string key_meant_by(std::string_view word);

/// The word among `choices` that `word` stands for: "bfloat16" for "bf16"; empty: none.
std::string choice_meant_by(std::string_view word, const std::vector<std::string>& choices);

/// A remark on what a full key counts, where the other names count something else: ": a step has
/// batch / ...".
std::string remark_on(std::string_view key);

}  // namespace trireme::config
