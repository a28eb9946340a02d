// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/chain.h"

#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"

#include <ATen/CPUGeneratorImpl.h>

namespace trireme::model {
namespace {

at::Generator generator_from(std::uint64_t key) {
  return at::detail::createCPUGenerator(key);
}

/// Separate the random streams of layers, ties and parameters.
constexpr std::uint64_t kLayerStream = 1;
constexpr std::uint64_t kTieStream = 2;
constexpr std::uint64_t kParameterStream = 3;

std::uint64_t word_of(const std::string& text) {
  std::uint64_t word = 0;
  for (const char c : text) word = mix(word, static_cast<unsigned char>(c));
  return word;
}

ChainModel make_own(const config::OwnModelSpec& mine, const ModelRegistry& own);

/// Builds the chain for any model spec that a job holds.
struct Maker {
  const ModelRegistry& own;

  ChainModel operator()(const config::GptSpec& spec) const { return make_gpt(spec); }
  ChainModel operator()(const config::LlamaSpec& spec) const { return make_llama(spec); }
  ChainModel operator()(const config::VitSpec& spec) const { return make_vit(spec); }
  ChainModel operator()(const config::ResnetSpec& spec) const { return make_resnet(spec); }
  ChainModel operator()(const config::VggSpec& spec) const { return make_vgg(spec); }
  ChainModel operator()(const config::MlpSpec& spec) const { return make_mlp(spec); }
  ChainModel operator()(const config::TorchScriptSpec& spec) const {
    return make_torchscript(spec);
  }
  ChainModel operator()(const config::OwnModelSpec& spec) const { return make_own(spec, own); }
};

}  // namespace

at::Generator Seeds::of_layer() const {
  return generator_from(
      mix(static_cast<std::uint64_t>(run_seed_), kLayerStream, static_cast<std::uint64_t>(layer_)));
}

at::Generator Seeds::of_tie(const std::string& tie) const {
  return generator_from(mix(static_cast<std::uint64_t>(run_seed_), kTieStream, word_of(tie)));
}

at::Generator Seeds::of_parameter(const std::string& name) const {
  return generator_from(
      mix(static_cast<std::uint64_t>(run_seed_), kParameterStream, word_of(name)));
}

std::vector<std::int64_t> ChainModel::example_sizes() const {
  if (input == InputKind::kImages) return {image.channels, image.height, image.width};
  return {input_size};
}

InputGradient input_gradient(const ChainModel& model, int number) {
  if (number == 1) return InputGradient::kNotNeeded;
  const bool ends = model.layers.at(static_cast<std::size_t>(number - 1)).ends_backward;
  return ends ? InputGradient::kZeros : InputGradient::kNeeded;
}

ChainModel make_model(const config::ModelSpec& spec, const ModelRegistry& own) {
  ChainModel model = std::visit(Maker{own}, spec);
  for (const LayerRecipe& layer : model.layers)
    if (!is_visible(layer.name))
      throw InputError(concat("the layer '", visible(layer.name),
                              "' has a control character in its name, must have one without any"));
  return model;
}

namespace {

ChainModel make_own(const config::OwnModelSpec& mine, const ModelRegistry& own) {
  const auto factory = own.find(mine.kind);
  if (factory == own.end())
    throw InputError(concat("no factory was registered for the model kind '", mine.kind, "'"));
  ChainModel model = factory->second(mine.node);
  ensure(!model.layers.empty(), "a model has at least one layer");
  return model;
}

}  // namespace
}  // namespace trireme::model
