// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/chain.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <ATen/CPUGeneratorImpl.h>

namespace trireme::model {
namespace {

at::Generator generator_from(std::uint64_t key) {
  return at::detail::createCPUGenerator(key);
}

/// Keeps the streams of layers and of ties apart.
constexpr std::uint64_t kLayerStream = 1;
constexpr std::uint64_t kTieStream = 2;

std::uint64_t word_of(const std::string& text) {
  std::uint64_t word = 0;
  for (const char c : text) word = mix(word, static_cast<unsigned char>(c));
  return word;
}

}  // namespace

at::Generator Seeds::of_layer() const {
  return generator_from(
      mix(static_cast<std::uint64_t>(run_seed_), kLayerStream, static_cast<std::uint64_t>(layer_)));
}

at::Generator Seeds::of_tie(const std::string& tie) const {
  return generator_from(mix(static_cast<std::uint64_t>(run_seed_), kTieStream, word_of(tie)));
}

ChainModel make_model(const config::ModelSpec& spec, const ModelRegistry& own) {
  if (const auto* gpt = std::get_if<config::GptSpec>(&spec)) return make_gpt(*gpt);
  if (const auto* mlp = std::get_if<config::MlpSpec>(&spec)) return make_mlp(*mlp);
  const auto& mine = std::get<config::OwnModelSpec>(spec);
  const auto factory = own.find(mine.kind);
  if (factory == own.end())
    throw InputError(concat("no factory was registered for the model kind '", mine.kind, "'"));
  ChainModel model = factory->second(mine.node);
  ensure(!model.layers.empty(), "a model has at least one layer");
  return model;
}

}  // namespace trireme::model
