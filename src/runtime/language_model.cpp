// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_reader.h"
#include "weights_reader.h"

#include "trireme/config/adapters.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/runtime/weights.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>

namespace trireme::runtime {
namespace {

/// Calls `read(layer, parameter)` for all parameters of a chain.
template <class Read>
void for_each_parameter(const std::vector<std::unique_ptr<model::Layer>>& layers,
                        const std::vector<std::string>& names, const Read& read) {
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (const model::Parameter& parameter : layers[i]->parameters()) read(names[i], parameter);
}

}  // namespace

LanguageModel::LanguageModel(const model::ChainModel& model) : context_(model.input_size) {
  if (model.input != model::InputKind::kTokens)
    throw InputError(concat(model.name, " is no model of tokens: there is no text to go on with"));
  for (int number = 1; number <= model.length(); ++number) {
    const model::LayerRecipe& recipe = model.layers[static_cast<std::size_t>(number - 1)];
    names_.push_back(recipe.name);
    layers_.push_back(recipe.build(model::Seeds(0, number)));
  }
}

LanguageModel LanguageModel::of_checkpoint(const model::ChainModel& model,
                                           const std::filesystem::path& checkpoint) {
  LanguageModel made(model);
  const CheckpointReader source(checkpoint);
  const auto& ties = source.manifest().ties;
  for_each_parameter(made.layers_, made.names_,
                     [&](const std::string& layer, const model::Parameter& parameter) {
                       const auto tie = ties.find(parameter.tie);
                       const std::string name =
                           tie == ties.end() ? concat(layer, '/', parameter.name) : tie->second;
                       source.read_rounded(concat(kParameters, name), parameter.value);
                     });
  return made;
}

LanguageModel LanguageModel::of_weights(const model::ChainModel& model,
                                        const config::ModelSpec& spec,
                                        const std::filesystem::path& weights) {
  LanguageModel made(model);
  const WeightsReader source(weights, spec);
  std::set<std::string> taken;
  for_each_parameter(made.layers_, made.names_,
                     [&](const std::string& layer, const model::Parameter& parameter) {
                       if (config::is_adapter(parameter.name)) return;
                       taken.insert(source.read(layer, parameter.name, parameter.value));
                     });
  source.require_nothing_left(taken);
  source.require_nothing_new(spec);
  return made;
}

at::Tensor LanguageModel::next(std::span<const std::int64_t> tokens) const {
  ensure(!tokens.empty(), "there is a token to go on from");
  const at::NoGradGuard no_grad;
  const std::size_t count = std::min(tokens.size(), static_cast<std::size_t>(context_));
  const std::span<const std::int64_t> seen = tokens.last(count);
  model::Values values{at::tensor(at::ArrayRef<std::int64_t>(seen.data(), count)).unsqueeze(0)};
  const model::Context context{.generator = {}, .training = false, .target = {}};
  for (const auto& layer : layers_) values = layer->forward(values, context);
  return values[0][0][-1];
}

std::int64_t draw(const at::Tensor& logits_V, const Sampling& sampling, at::Generator& generator) {
  if (sampling.temperature == 0) return at::argmax(logits_V).item<std::int64_t>();
  at::Tensor logits = logits_V.to(at::kDouble) / sampling.temperature;
  if (sampling.top_k > 0 && sampling.top_k < logits.size(0)) {
    const at::Tensor least = std::get<0>(at::topk(logits, sampling.top_k))[-1];
    logits = at::where(logits < least, -std::numeric_limits<double>::infinity(), logits);
  }
  return at::multinomial(at::softmax(logits, 0), 1, /*replacement=*/false, generator)
      .item<std::int64_t>();
}

}  // namespace trireme::runtime
