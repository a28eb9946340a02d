// The built-in models by kind, and the data that each can take.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/config/job.h"

#include <string>
#include <string_view>
#include <vector>

namespace trireme::config {

constexpr std::string_view kind_of(const GptSpec&) {
  return "gpt";
}
constexpr std::string_view kind_of(const LlamaSpec&) {
  return "llama";
}
constexpr std::string_view kind_of(const VitSpec&) {
  return "vit";
}
constexpr std::string_view kind_of(const ResnetSpec&) {
  return "resnet";
}
constexpr std::string_view kind_of(const VggSpec&) {
  return "vgg";
}
constexpr std::string_view kind_of(const MlpSpec&) {
  return "mlp";
}

constexpr std::string_view kind_of(const TorchScriptSpec&) {
  return "torchscript";
}

/// Calls `use` with every built-in spec and its defaults, in the order in which messages list them.
template <class Use>
void for_each_built_in(const Use& use) {
  use(GptSpec{});
  use(LlamaSpec{});
  use(VitSpec{});
  use(ResnetSpec{});
  use(VggSpec{});
  use(MlpSpec{});
  use(TorchScriptSpec{});
}

/// Whether a built-in model has batch norm, which takes means over a micro-batch.
bool has_batch_norm(const ModelSpec& model);

/// Kinds of data that a model can take, the default first.
std::vector<std::string> data_kinds_of(const ModelSpec& model);

}  // namespace trireme::config
