// Models of made-up weights, the same here and in huggingface_vectors.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/checkpoint/tensor_file.h"
#include "trireme/checkpoint/tensor_set.h"
#include "trireme/config/job.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace trireme::runtime {

/// Rewrites every tensor of a file with values of a sine, its phase by the tensor's name, around 1
/// for the weights of norms.
inline void make_up(const std::filesystem::path& from, const std::filesystem::path& to) {
  const checkpoint::TensorSet set = checkpoint::find_tensors(from);
  std::vector<checkpoint::Spec> specs;
  for (const auto& [name, entry] : set.tensors)
    specs.push_back({.name = name, .type = "F32", .sizes = entry.sizes, .size = entry.size});
  checkpoint::TensorFile out(to, specs);
  for (const checkpoint::Spec& spec : specs) {
    int phase = 0;
    for (const char letter : spec.name) phase += letter;
    const bool is_norm = spec.sizes.size() == 1 && spec.name.ends_with("weight");
    std::vector<float> values(static_cast<std::size_t>(spec.size.count()) / sizeof(float));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(0.4 * std::sin(0.7 * static_cast<double>(i) + phase % 97) +
                                     (is_norm ? 1 : 0));
    out.append(std::as_bytes(std::span(values)));
  }
  out.finish();
}

inline config::GptSpec vector_gpt() {
  return {.blocks = 2, .width = 16, .heads = 2, .context = 32, .vocabulary = 16};
}

inline config::LlamaSpec vector_llama() {
  config::LlamaSpec spec;
  spec.blocks = 2;
  spec.width = 16;
  spec.heads = 2;
  spec.hidden = 24;
  spec.context = 32;
  spec.vocabulary = 16;
  return spec;
}

inline std::vector<std::int64_t> vector_tokens() {
  std::vector<std::int64_t> tokens(12);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = (7 * static_cast<std::int64_t>(i) + 3) % 16;
  return tokens;
}

}  // namespace trireme::runtime
