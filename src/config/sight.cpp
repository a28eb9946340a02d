// SPDX-License-Identifier: Apache-2.0
#include "trireme/config/sight.h"

#include "foreign_config.h"

#include "trireme/config/huggingface.h"

#include <string>
#include <variant>

namespace trireme::config {
namespace {

/// Defaults of transformers.
int default_positions(const std::string& type) {
  if (type == "mistral") return 131'072;
  return type == "qwen2" ? 32'768 : 2048;
}
constexpr std::int64_t kFullQwenBlocks = 28;
constexpr std::int64_t kMostBlocks = 100'000'000;

/// Whether each block of a model with a window has one: of a qwen2 those that `layer_types` says,
/// or else all from `max_window_layers` on.
std::vector<bool> windowed_blocks(const ForeignConfig& config, int blocks) {
  std::vector<bool> all(static_cast<std::size_t>(blocks), true);
  if (config.find("model_type")->text() != "qwen2") return all;
  const auto types = config.find("layer_types");
  const auto first = config.find("max_window_layers");
  const std::int64_t full = first ? first->integer(0, kMostBlocks) : kFullQwenBlocks;
  for (std::size_t block = 0; block < all.size(); ++block)
    all[block] = types ? types->list()[block].choice({"full_attention", "sliding_attention"}) ==
                             "sliding_attention"
                       : static_cast<std::int64_t>(block) >= full;
  return all;
}

}  // namespace

Sight read_sight(const io::Node& node) {
  const ModelSpec model = read_huggingface(node);
  if (const auto* const gpt = std::get_if<GptSpec>(&model))
    return {.tokens = gpt->context,
            .windows = std::vector<std::optional<int>>(static_cast<std::size_t>(gpt->blocks))};
  const LlamaSpec& llama = std::get<LlamaSpec>(model);
  const ForeignConfig config(node);
  Sight sight{.tokens = config.whole("max_position_embeddings",
                                     default_positions(config.find("model_type")->text())),
              .windows = std::vector<std::optional<int>>(static_cast<std::size_t>(llama.blocks))};
  if (!llama.window) return sight;
  const std::vector<bool> has_window = windowed_blocks(config, llama.blocks);
  for (std::size_t block = 0; block < has_window.size(); ++block)
    if (has_window[block]) sight.windows[block] = llama.window;
  return sight;
}

}  // namespace trireme::config
