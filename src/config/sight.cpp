// SPDX-License-Identifier: Apache-2.0
#include "trireme/config/sight.h"

#include "foreign_config.h"
#include "llama_sight.h"

#include "trireme/config/huggingface.h"

#include <variant>

namespace trireme::config {

Sight read_sight(const io::Node& node) {
  const ModelSpec model = read_huggingface(node);
  if (const auto* const gpt = std::get_if<GptSpec>(&model))
    return {.tokens = gpt->context,
            .windows = std::vector<std::optional<int>>(static_cast<std::size_t>(gpt->blocks))};
  const LlamaSpec& llama = std::get<LlamaSpec>(model);
  const ForeignConfig config(node);
  Sight sight{.tokens = most_positions(config),
              .windows = std::vector<std::optional<int>>(static_cast<std::size_t>(llama.blocks))};
  if (!llama.window) return sight;
  const std::vector<bool> has_window = windowed_blocks(config, llama.blocks);
  for (std::size_t block = 0; block < has_window.size(); ++block)
    if (has_window[block]) sight.windows[block] = llama.window;
  return sight;
}

}  // namespace trireme::config
