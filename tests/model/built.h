// Small chains, built and run layer by layer as the runtime does it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/text.h"
#include "trireme/model/chain.h"
#include "trireme/model/taped.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <memory>
#include <string>
#include <vector>

namespace trireme::model {

inline constexpr std::int64_t kSeed = 5;

inline std::unique_ptr<Layer> build(const ChainModel& model, int number) {
  return model.layers.at(static_cast<std::size_t>(number - 1)).build(Seeds(kSeed, number));
}

/// All layers of a chain.
struct Built {
  explicit Built(ChainModel chain, Precision precision = Precision::kFloat32,
                 c10::Device device = at::kCPU)
      : model(std::move(chain)) {
    for (int i = 1; i <= model.length(); ++i) {
      layers.push_back(build(model, i));
      move_to(device, *layers.back());
      lower_weights(*layers.back(), precision);
    }
  }

  Layer& layer(int number) { return *layers.at(static_cast<std::size_t>(number - 1)); }
  /// In chain order.
  std::vector<Parameter> parameters() const {
    std::vector<Parameter> all;
    for (const auto& layer : layers)
      all.insert(all.end(), layer->parameters().begin(), layer->parameters().end());
    return all;
  }

  ChainModel model;
  std::vector<std::unique_ptr<Layer>> layers;
};

/// The context of a forward; the same random numbers every time.
inline Context context(bool training = true, Values target = {},
                       std::vector<std::int64_t> documents = {}) {
  return {.generator = at::detail::createCPUGenerator(7),
          .training = training,
          .target = std::move(target),
          .documents = std::move(documents)};
}

/// Random examples of a chain: input, target, and the documents that they are made of.
struct Examples {
  Examples(const ChainModel& model, std::int64_t count, std::uint64_t seed = 3) {
    at::Generator from = at::detail::createCPUGenerator(seed);
    std::vector<std::int64_t> sizes = model.example_sizes();
    sizes.insert(sizes.begin(), count);
    if (model.input == InputKind::kTokens) {
      input = at::empty(sizes, at::kLong).random_(0, model.classes, from);
      target = at::empty(sizes, at::kLong).random_(0, model.classes, from);
    } else {
      input = at::empty(sizes).normal_(0, 1, from);
      target = at::empty({count}, at::kLong).random_(0, model.classes, from);
    }
  }

  void move_to(c10::Device device) {
    input = input.to(device);
    target = target.to(device);
  }

  at::Tensor input, target;
  std::vector<std::int64_t> documents = {};
};

/// A forward through all layers, without tape.
inline std::vector<Values> outputs(Built& chain, const Examples& examples, bool training = true) {
  std::vector<Values> all{{examples.input}};
  for (int i = 1; i <= chain.model.length(); ++i) {
    const bool is_last = i == chain.model.length();
    all.push_back(untaped_forward(chain.layer(i), all.back(),
                                  context(training, is_last ? Values{examples.target} : Values{}),
                                  Precision::kFloat32));
  }
  return all;
}

/// The values that went through a chain: every layer's output, and the gradients of its input.
struct Passed {
  std::vector<Values> outputs, gradients;
};

/// A forward and a backward through all layers; adds to the parameters' gradients.
inline Passed pass(Built& chain, const Examples& examples,
                   Precision precision = Precision::kFloat32) {
  Passed passed;
  std::vector<Tape> tapes;
  Values x{examples.input};
  for (int i = 1; i <= chain.model.length(); ++i) {
    const bool is_last = i == chain.model.length();
    tapes.push_back(taped_forward(
        chain.layer(i), x,
        context(true, is_last ? Values{examples.target} : Values{}, examples.documents), precision,
        input_gradient(chain.model, i)));
    x = tapes.back().outputs;
    passed.outputs.push_back(x);
  }
  passed.gradients.resize(tapes.size());
  Values gradients{at::ones_like(x.at(0))};
  while (!tapes.empty()) {
    gradients = backward(std::move(tapes.back()), gradients);
    tapes.pop_back();
    passed.gradients[tapes.size()] = gradients;
  }
  return passed;
}

/// The same; returns the loss.
inline at::Tensor run(Built& chain, const Examples& examples,
                      Precision precision = Precision::kFloat32) {
  return pass(chain, examples, precision).outputs.back().at(0);
}

}  // namespace trireme::model
