// SPDX-License-Identifier: Apache-2.0
#include "trireme/config/weights_notes.h"

#include "foreign_config.h"

#include "trireme/config/adapters.h"
#include "trireme/config/huggingface.h"
#include "trireme/core/text.h"

#include <filesystem>
#include <optional>
#include <variant>

namespace trireme::config {
namespace {

constexpr Bytes kMaxConfig{1 << 20};

std::optional<io::Node> load_beside(const std::string& folder, const char* name) {
  const std::filesystem::path file = std::filesystem::path(folder) / name;
  std::error_code none;
  if (folder.empty() || !std::filesystem::is_regular_file(file, none)) return std::nullopt;
  return io::load(file, kMaxConfig);
}

}  // namespace

std::vector<std::string> weights_notes(const JobSpec& job) {
  std::vector<std::string> notes;
  const auto* const llama = std::get_if<LlamaSpec>(&job.model);
  const auto weights = load_beside(job.weights, kHuggingFaceFile);
  if (weights && llama != nullptr) {
    const ForeignConfig config(*weights);
    const auto positions = config.whole("max_position_embeddings");
    if (positions && llama->context > *positions)
      notes.push_back(concat("model.context is ", llama->context, ", but ", job.weights,
                             " is made for texts of at most ", *positions,
                             " tokens (max_position_embeddings): what comes later is new to it"));
    if (const auto padding = config.find("pad_token_id"))
      notes.push_back(concat("token ", padding->text(), " (pad_token_id of ", job.weights,
                             ") learns like any other; in transformers its row of the embedding "
                             "has no gradient as an input"));
  }
  if (const auto adapters = load_beside(job.adapters, kAdaptersFile))
    if (const double dropout = adapters_dropout(*adapters); dropout > 0)
      notes.push_back(concat(job.adapters, " was made with lora_dropout: ", dropout,
                             "; adapters here train without dropout"));
  return notes;
}

}  // namespace trireme::config
