// SPDX-License-Identifier: Apache-2.0
#include "trireme/runtime/stage.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/model/update.h"
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

Stage::Stage(const model::ChainModel& model, std::vector<int> layers, std::int64_t seed,
             c10::Device device)
    : device_(device), numbers_(std::move(layers)) {
  const tier::TagScope tag(tier::Tag::kParameters);
  auto built = build(model, numbers_, seed, device_.is_cpu() ? 1 : host_cores());
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const int number = numbers_[i];
    layers_[number] = std::move(built[i]);
    model::move_to(device_, *layers_[number]);
    names_[number] = model.layers.at(static_cast<std::size_t>(number - 1)).name;
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
