// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/stage.h"

#include "tensor_bytes.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/tier/memory.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

namespace trireme::runtime {
namespace {

using Layers = std::vector<std::unique_ptr<model::Layer>>;

std::size_t host_cores() {
  return std::max(1U, std::thread::hardware_concurrency());
}

/// Every value comes from its own layer's generators, so threads do not change any. One thread
/// where memory on CPU counts: it counts for the thread that takes it.
Layers build(const model::ChainModel& model, const std::vector<int>& numbers, std::int64_t seed,
             std::size_t threads) {
  Layers layers(numbers.size());
  std::atomic<std::size_t> next = 0;
  const auto build_some = [&] {
    for (std::size_t i = next++; i < numbers.size(); i = next++) {
      const auto place = static_cast<std::size_t>(numbers[i] - 1);
      layers[i] = model.layers.at(place).build(model::Seeds(seed, numbers[i]));
    }
  };
  std::vector<std::future<void>> helpers;
  for (std::size_t i = 1; i < std::min(threads, numbers.size()); ++i)
    helpers.push_back(std::async(std::launch::async, build_some));
  build_some();
  for (std::future<void>& helper : helpers) helper.get();
  return layers;
}

}  // namespace

InputError unlike_uses(const std::string& tie, const std::string& first,
                       const std::string& second) {
  return InputError(concat("the tied weight '", tie, "' begins with other values in ", second,
                           " than in ", first,
                           ", so that its values would depend on the cut: give all its uses one "
                           "shape, and draw them from Seeds::of_tie"));
}

Stage::Stage(const model::ChainModel& model, std::vector<int> layers, std::int64_t seed,
             model::Precision precision, c10::Device device)
    : device_(device), numbers_(std::move(layers)) {
  const tier::TagScope tag(tier::Tag::kParameters);
  auto built = build(model, numbers_, seed, device_.is_cpu() ? 1 : host_cores());
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const int number = numbers_[i];
    layers_[number] = std::move(built[i]);
    names_[number] = model.layers.at(static_cast<std::size_t>(number - 1)).name;
    model::move_to(device_, *layers_[number]);
    add_parameters(number, model::lower_weights(*layers_[number], precision));
  }
  const tier::TagScope gradients(tier::Tag::kGradients);
  std::vector<at::Tensor> weights;
  for (const StageParameter& parameter : parameters_) weights.push_back(parameter.weight);
  gradients_.emplace(weights);
  gradients_->begin_anew();
  for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].gradient = gradients_->of(i);
}

void Stage::add_parameters(int number, const std::vector<at::Tensor>& masters) {
  const std::vector<model::Parameter>& weights = layers_.at(number)->parameters();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    StageParameter use{.layer = number,
                       .index = static_cast<int>(i),
                       .name = concat(names_[number], "/", weights[i].name),
                       .tie = weights[i].tie,
                       .value = masters[i],
                       .weight = weights[i].value,
                       .gradient = {}};
    ensure(use.value.scalar_type() == at::kFloat, concat(use.name, " is float32"));
    const auto is_first_use = [&](const StageParameter& other) { return other.tie == use.tie; };
    const auto first = use.tie.empty()
                           ? parameters_.end()
                           : std::find_if(parameters_.begin(), parameters_.end(), is_first_use);
    if (first != parameters_.end()) {
      if (digest_of(use.value) != digest_of(first->value))
        throw unlike_uses(use.tie, first->name, use.name);
      use.shares_value = true;
      use.value = first->value;
      use.weight.set_data(first->weight.variable_data());
    }
    parameters_.push_back(std::move(use));
  }
}

Bytes Stage::parameter_bytes() const {
  std::int64_t bytes = 0;
  for (const StageParameter& parameter : parameters_) {
    if (!parameter.shares_value) bytes += static_cast<std::int64_t>(parameter.weight.nbytes());
  }
  return Bytes(bytes);
}

Bytes Stage::gradient_bytes() const {
  return Bytes(static_cast<std::int64_t>(gradients_->flat().nbytes()));
}

}  // namespace trireme::runtime
