// SPDX-License-Identifier: Apache-2.0
#include "built_in.h"

namespace trireme::config {
namespace {

template <class Spec>
bool is(const ModelSpec& model) {
  return std::holds_alternative<Spec>(model);
}

}  // namespace

std::string kind_of(const ModelSpec& model) {
  if (const auto* own = std::get_if<OwnModelSpec>(&model)) return own->kind;
  std::string kind;
  for_each_built_in([&]<class Spec>(const Spec& spec) {
    if (is<Spec>(model)) kind = kind_of(spec);
  });
  return kind;
}

bool has_batch_norm(const ModelSpec& model) {
  if (const auto* mlp = std::get_if<MlpSpec>(&model)) return mlp->batch_norm;
  if (const auto* vgg = std::get_if<VggSpec>(&model)) return vgg->batch_norm;
  return is<ResnetSpec>(model);
}

std::vector<std::string> data_kinds_of(const ModelSpec& model) {
  if (is<GptSpec>(model) || is<LlamaSpec>(model))
    return {"text", "tokens", "documents", "synthetic"};
  if (is<MlpSpec>(model)) return {"synthetic"};
  if (const auto* script = std::get_if<TorchScriptSpec>(&model)) {
    if (script->takes == "tokens" && script->masked_targets)
      return {"text", "tokens", "documents", "synthetic"};
    if (script->takes == "tokens") return {"text", "tokens", "synthetic"};
    if (script->takes == "vectors") return {"synthetic"};
  }
  if (is<OwnModelSpec>(model)) return {"text", "tokens", "documents", "images", "synthetic", "own"};
  return {"synthetic", "images"};
}

}  // namespace trireme::config
