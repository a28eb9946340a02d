// SPDX-License-Identifier: Apache-2.0
#include "trireme/config/sight.h"

#include "families.h"

#include "trireme/config/huggingface.h"

#include <variant>

namespace trireme::config {

std::int64_t longest_text(const io::Node& node) {
  const ModelSpec model = read_huggingface(node);
  if (const auto* const gpt = std::get_if<GptSpec>(&model)) return gpt->context;
  const ForeignConfig config(node);
  return most_positions(*family_of(config.find("model_type")->text()), config);
}

}  // namespace trireme::config
