// SPDX-License-Identifier: Apache-2.0
#include "state/stage.h"

#include "state/built_layers.h"
#include "state/tensor_bytes.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/tier/memory.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace trireme::runtime {
namespace {

/// Copies a tensor that another thread made, so that it counts as this thread's memory.
void counted_here(at::Tensor value) {
  const at::NoGradGuard no_grad;
  value.set_data(value.variable_data().clone());
}

}  // namespace

InputError unlike_uses(const std::string& tie, const std::string& first,
                       const std::string& second) {
  return InputError(concat("the tied weight '", tie, "' has other initial values in ", second,
                           " than in ", first,
                           ", so that its values would depend on the cut: all its uses must begin "
                           "with the same tensor (in C++ drawn from Seeds::of_tie; in Python one "
                           "nn.Parameter that they share, filled alike on every rank)"));
}

Stage::Stage(const model::ChainModel& model, std::vector<int> layers, std::int64_t seed,
             model::Precision precision, c10::Device device, Masters masters,
             StreamedWeights* weights)
    : device_(device),
      masters_(masters),
      seed_(seed),
      weights_(weights),
      numbers_(std::move(layers)) {
  std::vector<int> apart;
  for (const int number : numbers_) {
    input_gradients_[number] = model::input_gradient(model, number);
    recipes_[number] = model.layers.at(static_cast<std::size_t>(number - 1));
    if (is_built_apart(number)) apart.push_back(number);
  }
  const tier::TagScope tag(tier::Tag::kParameters);
  const auto build = [&](int number) {
    auto layer = draw(number);
    model::lower_frozen(*layer, precision);
    return layer;
  };
  BuiltLayers built(apart, build, built_at_once(device_));
  for (const int number : numbers_)
    add_layer(number, is_built_apart(number) ? built.next() : draw(number), precision);
  const tier::TagScope gradients(tier::Tag::kGradients);
  std::vector<at::Tensor> trained;
  for (const StageParameter& parameter : parameters_)
    if (parameter.is_trained && !parameter.is_streamed) trained.push_back(parameter.weight);
  gradients_.emplace(trained);
  std::size_t next = 0;
  for (StageParameter& parameter : parameters_)
    if (parameter.is_trained && !parameter.is_streamed) parameter.gradient = gradients_->of(next++);
  gradients_->begin_anew();
  for (auto& [layer, sums] : streamed_gradients_) sums.begin_anew();
}

std::unique_ptr<model::Layer> Stage::draw(int number) const {
  return recipes_.at(number).build(model::Seeds(seed_, number));
}

// On CPU, memory counts for the thread that allocates it: layers with frozen weights, or with
// masters that the stage does not keep, take more of it while they are built than ever after.
bool Stage::is_built_apart(int number) const {
  return !device_.is_cpu() || recipes_.at(number).has_frozen || masters_ == Masters::kDrawnAgain;
}

void Stage::add_layer(int number, std::unique_ptr<model::Layer> built, model::Precision precision) {
  model::Layer& layer = *built;
  std::vector<at::Tensor> masters;
  if (masters_ == Masters::kDrawnAgain) masters = model::lower_weights(layer, precision);
  if (is_built_apart(number)) take_over(number, layer);
  model::move_to(device_, layer);
  if (masters_ == Masters::kDevice) masters = model::lower_weights(layer, precision);
  if (streams(number)) separate_streamed(number, layer);
  for (std::size_t i = 0; i < masters.size(); ++i) {
    const at::Tensor& weight = layer.parameters()[i].value;
    if (masters[i].scalar_type() == weight.scalar_type()) masters[i] = weight.detach();
  }
  layers_[number] = std::move(built);
  add_parameters(number, masters);
  if (streams(number)) stream_weights(number);
}

void Stage::take_over(int number, model::Layer& layer) {
  for (const model::Parameter& parameter : layer.parameters()) {
    if (shares_frozen(number, parameter) || !device_.is_cpu()) continue;
    // Weights that are offloaded at once need not be counted.
    if (!is_streamed(number, layer, parameter)) counted_here(parameter.value);
  }
  for (const model::Buffer& buffer : layer.buffers())
    if (device_.is_cpu()) counted_here(buffer.value);
}

void Stage::separate_streamed(int number, const model::Layer& layer) const {
  for (const model::Parameter& parameter : layer.parameters())
    if (is_streamed(number, layer, parameter) &&
        parameter.value.storage().nbytes() != parameter.value.nbytes())
      counted_here(parameter.value);
}

bool Stage::shares_frozen(int number, const model::Parameter& parameter) const {
  if (parameter.is_trained || parameter.tie.empty()) return false;
  for (const StageParameter& held : parameters_) {
    if (held.tie != parameter.tie) continue;
    at::Tensor value = parameter.value;
    const at::Tensor there = held.weight.variable_data();
    if (!at::equal(value.variable_data(), there.cpu()))
      throw unlike_uses(parameter.tie, held.name, concat(layer_name(number), "/", parameter.name));
    value.set_data(there);
    return true;
  }
  return false;
}

void Stage::add_parameters(int number, const std::vector<at::Tensor>& masters) {
  const std::vector<model::Parameter>& weights = layers_.at(number)->parameters();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    StageParameter use{.layer = number,
                       .index = static_cast<int>(i),
                       .name = concat(layer_name(number), "/", weights[i].name),
                       .tie = weights[i].tie,
                       .begins = {},
                       .is_trained = weights[i].is_trained,
                       .is_streamed = is_streamed(number, *layers_.at(number), weights[i]),
                       .value = masters[i],
                       .weight = weights[i].value,
                       .gradient = {}};
    ensure(!use.is_trained || use.value.scalar_type() == at::kFloat,
           concat(use.name, " is float32"));
    if (!use.tie.empty()) use.begins = digest_of(use.value);
    const bool has_master = use.value.scalar_type() != use.weight.scalar_type();
    if (has_master && masters_ == Masters::kDrawnAgain) use.value.reset();
    const auto is_first_use = [&](const StageParameter& other) { return other.tie == use.tie; };
    const auto first = use.tie.empty()
                           ? parameters_.end()
                           : std::find_if(parameters_.begin(), parameters_.end(), is_first_use);
    if (first != parameters_.end()) {
      if (use.begins != first->begins) throw unlike_uses(use.tie, first->name, use.name);
      ensure(use.is_trained == first->is_trained, "all uses of a tied weight are trained, or none");
      use.shares_value = true;
      use.value = first->value;
      use.weight.set_data(first->weight.variable_data());
    }
    parameters_.push_back(std::move(use));
  }
}

// Must agree with chain::LayerCost::may_leave().
bool Stage::is_streamed(int number, const model::Layer& layer,
                        const model::Parameter& parameter) const {
  if (!streams(number) || !parameter.tie.empty()) return false;
  const std::vector<model::Parameter>& all = layer.parameters();
  const bool has_frozen = std::any_of(all.begin(), all.end(), [](const model::Parameter& one) {
    return !one.is_trained && one.tie.empty();
  });
  return parameter.is_trained != has_frozen;
}

void Stage::stream_weights(int number) {
  std::vector<at::Tensor> weights;
  std::vector<StageParameter*> trained;
  for (StageParameter& parameter : parameters_) {
    if (parameter.layer != number || !parameter.is_streamed) continue;
    weights.push_back(parameter.weight);
    if (parameter.is_trained) trained.push_back(&parameter);
  }
  if (trained.empty()) return weights_->add(number, weights);
  const tier::TagScope tag(tier::Tag::kGradients);
  const model::GradientSums& sums = streamed_gradients_.try_emplace(number, weights).first->second;
  for (std::size_t i = 0; i < trained.size(); ++i) trained[i]->gradient = sums.of(i);
  weights_->add(number, weights, sums.flat());
}

model::GradientSums* Stage::streamed_gradients(int layer) {
  const auto found = streamed_gradients_.find(layer);
  return found == streamed_gradients_.end() ? nullptr : &found->second;
}

void Stage::put_master(std::size_t parameter, const at::Tensor& master) {
  parameters_.at(parameter).value = master;
  const std::string& tie = parameters_[parameter].tie;
  for (StageParameter& other : parameters_)
    if (other.shares_value && other.tie == tie) other.value = master;
}

Bytes Stage::parameter_bytes() const {
  std::int64_t bytes = 0;
  for (const StageParameter& parameter : parameters_) {
    if (!parameter.shares_value) bytes += static_cast<std::int64_t>(parameter.weight.nbytes());
  }
  return Bytes(bytes);
}

Bytes Stage::gradient_bytes() const {
  std::size_t bytes = gradients_->flat().nbytes();
  for (const auto& [layer, sums] : streamed_gradients_) bytes += sums.flat().nbytes();
  return Bytes(static_cast<std::int64_t>(bytes));
}

}  // namespace trireme::runtime
