// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/stage.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/model/update.h"
#include "trireme/tier/memory.h"

#include <ATen/ATen.h>

namespace trireme::runtime {

Stage::Stage(const model::ChainModel& model, std::vector<int> layers, std::int64_t seed)
    : numbers_(std::move(layers)) {
  const tier::TagScope tag(tier::Tag::kParameters);
  for (const int number : numbers_) {
    const model::LayerRecipe& recipe = model.layers.at(static_cast<std::size_t>(number - 1));
    layers_[number] = recipe.build(model::Seeds(seed, number));
    names_[number] = recipe.name;
  }
  collect_parameters();
}

void Stage::collect_parameters() {
  std::map<std::string, at::Tensor> first_use;
  for (const int number : numbers_) {
    int index = 0;
    for (const model::Parameter& parameter : layers_.at(number)->parameters()) {
      ensure(parameter.value.scalar_type() == at::kFloat,
             concat(names_[number], "/", parameter.name, " is float32"));
      const bool shares = !parameter.tie.empty() && first_use.contains(parameter.tie);
      if (shares) {
        at::Tensor value = parameter.value;
        value.set_data(first_use.at(parameter.tie).variable_data());
      } else if (!parameter.tie.empty()) {
        first_use.emplace(parameter.tie, parameter.value);
      }
      parameters_.push_back({.layer = number,
                             .index = index++,
                             .name = concat(names_[number], "/", parameter.name),
                             .tie = parameter.tie,
                             .shares_value = shares,
                             .value = parameter.value,
                             .gradient = {}});
    }
  }
  const tier::TagScope tag(tier::Tag::kGradients);
  std::vector<at::Tensor> values;
  for (const StageParameter& parameter : parameters_) values.push_back(parameter.value);
  flat_gradients_ = model::attach_gradients(values);
  for (StageParameter& parameter : parameters_) parameter.gradient = parameter.value.grad();
}

std::span<float> Stage::gradients() {
  return {flat_gradients_.data_ptr<float>(), static_cast<std::size_t>(flat_gradients_.numel())};
}

void Stage::zero_gradients() {
  flat_gradients_.zero_();
}

Bytes Stage::parameter_bytes() const {
  std::int64_t bytes = 0;
  for (const StageParameter& parameter : parameters_) {
    if (!parameter.shares_value) bytes += static_cast<std::int64_t>(parameter.value.nbytes());
  }
  return Bytes(bytes);
}

Bytes Stage::gradient_bytes() const {
  return Bytes(static_cast<std::int64_t>(flat_gradients_.nbytes()));
}

}  // namespace trireme::runtime
