// SPDX-License-Identifier: Apache-2.0
#include "saved/checkpoint_reader.h"
#include "saved/weights_reader.h"

#include "trireme/config/adapters.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/runtime/weights.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace trireme::runtime {
namespace {

/// The fraction 1/n of the context that is dropped at a time from a text that has outgrown it.
constexpr std::int64_t kDroppedPart = 4;
/// Tokens that pass the layers together (chunked prefill): a long prompt's activations stay small.
constexpr std::int64_t kMostAtOnce = 512;

const model::Context kInference{.generator = {}, .training = false, .target = {}};

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
    throw InputError(concat(model.name, " is not a language model: there is no text to continue"));
  if (!model.gives_logits) throw InputError(concat(model.name, ": ", model::kNoLogits));
  for (int number = 1; number <= model.length(); ++number) {
    const model::LayerRecipe& recipe = model.layers[static_cast<std::size_t>(number - 1)];
    names_.push_back(recipe.name);
    windows_.push_back(recipe.window);
    layers_.push_back(recipe.build(model::Seeds(0, number)));
  }
  share_ties();
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

void LanguageModel::share_ties() {
  std::map<std::string, at::Tensor> first_uses;
  for_each_parameter(layers_, names_, [&](const std::string&, const model::Parameter& parameter) {
    if (parameter.tie.empty()) return;
    const auto [first, is_first] = first_uses.try_emplace(parameter.tie, parameter.value);
    if (!is_first) at::Tensor(parameter.value).set_data(first->second.variable_data());
  });
}

void LanguageModel::move_to(c10::Device device) {
  for (const auto& layer : layers_) model::move_to(device, *layer);
  share_ties();
  device_ = device;
}

model::Values LanguageModel::on_device(std::span<const std::int64_t> tokens) const {
  const at::ArrayRef<std::int64_t> values(tokens.data(), tokens.size());
  return {at::tensor(values).unsqueeze(0).to(device_)};
}

at::Tensor LanguageModel::next(std::span<const std::int64_t> tokens) const {
  ensure(!tokens.empty(), "there is a token to go on from");
  const c10::InferenceMode no_tape;
  model::Values values =
      on_device(tokens.last(std::min(tokens.size(), static_cast<std::size_t>(context_))));
  for (const auto& layer : layers_) values = layer->forward(values, kInference);
  return values[0][0][-1].cpu();
}

GrowingText::GrowingText(const LanguageModel& model, std::int64_t most_tokens)
    : model_(model), least_seen_(model.context_ - model.context_ / kDroppedPart) {
  for (std::size_t i = 0; i < model.layers_.size(); ++i) {
    auto* const layer = dynamic_cast<model::ForwardByPieces*>(model.layers_[i].get());
    if (layer == nullptr) {
      layers_.clear();
      least_seen_ = model.context_;
      return;
    }
    layers_.push_back(layer);
    pasts_.emplace_back(std::min(model.context_, most_tokens), model.windows_[i]);
  }
}

at::Tensor GrowingText::next(std::span<const std::int64_t> text) {
  const auto size = static_cast<std::int64_t>(text.size());
  ensure(size > end_, "the text has grown");
  if (layers_.empty()) return model_.next(text);
  const c10::InferenceMode no_tape;
  if (size - begin_ > model_.context_) {
    begin_ = size - (end_ == 0 ? model_.context_ : least_seen_);
    end_ = begin_;
    for (model::Past& past : pasts_) past.clear();
  }
  at::Tensor logits_V;
  while (end_ < size) {
    const std::int64_t piece = std::min(kMostAtOnce, size - end_);
    logits_V = pass(text.subspan(static_cast<std::size_t>(end_), static_cast<std::size_t>(piece)));
    end_ += piece;
  }
  return logits_V;
}

at::Tensor GrowingText::pass(std::span<const std::int64_t> piece) {
  model::Values values = model_.on_device(piece);
  for (std::size_t i = 0; i < layers_.size(); ++i)
    values = layers_[i]->forward_piece(values, kInference, pasts_[i]);
  return values[0][0][-1].cpu();
}

std::int64_t draw(const at::Tensor& logits_V, const Sampling& sampling, at::Generator& generator) {
  if (sampling.temperature == 0) return at::argmax(logits_V).item<std::int64_t>();
  // The largest logit becomes 0, which no temperature makes infinite.
  at::Tensor logits = logits_V.to(at::kDouble);
  logits = (logits - logits.max()) / sampling.temperature;
  if (sampling.top_k > 0 && sampling.top_k < logits.size(0)) {
    const at::Tensor least = std::get<0>(at::topk(logits, sampling.top_k))[-1];
    logits = at::where(logits < least, -std::numeric_limits<double>::infinity(), logits);
  }
  return at::multinomial(at::softmax(logits, 0), 1, /*replacement=*/false, generator)
      .item<std::int64_t>();
}

}  // namespace trireme::runtime
