// Gradients of every layer of every chain against central differences, in double precision.
// SPDX-License-Identifier: Apache-2.0
#include "built.h"
#include "small_chains.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

namespace trireme::model {
namespace {

constexpr double kStep = 1e-6;

at::Tensor random_like(const at::Tensor& value, std::uint64_t seed) {
  return at::empty(value.sizes(), at::kDouble).normal_(0, 1, at::detail::createCPUGenerator(seed));
}

/// Parameters and buffers in double, different from their initial zeros and ones.
void use_doubles(Layer& layer) {
  std::uint64_t seed = 100;
  for (const Parameter& parameter : layer.parameters()) {
    const at::Tensor value = parameter.value.detach().to(at::kDouble);
    parameter.value.set_data(value + 0.1 * random_like(value, ++seed));
  }
  for (const Buffer& buffer : layer.buffers()) buffer.value.set_data(buffer.value.to(at::kDouble));
}

/// One layer as a function of its tensors: a random linear form of its outputs.
struct Subject {
  Layer& layer;
  Values input;
  Values target;

  double value() const {
    double sum = 0;
    const Values output = untaped_forward(layer, input, context(true, target), Precision::kFloat32);
    for (std::size_t i = 0; i < output.size(); ++i)
      sum += (output[i] * random_like(output[i], i)).sum().item<double>();
    return sum;
  }

  /// Adds to the parameters' gradients; returns the input's.
  Values differentiate() const {
    Tape tape = taped_forward(layer, input, context(true, target), Precision::kFloat32,
                              InputGradient::kNeeded);
    Values gradients;
    for (std::size_t i = 0; i < tape.outputs.size(); ++i)
      gradients.push_back(random_like(tape.outputs[i], i));
    return backward(std::move(tape), gradients);
  }
};

void expect_gradient(const Subject& subject, const at::Tensor& of, const at::Tensor& gradient,
                     const std::string& name) {
  const at::NoGradGuard no_grad;
  const at::Tensor direction = random_like(of, 50);
  at::Tensor value = of.detach();  // the same storage
  const at::Tensor before = value.clone();
  value.add_(direction, kStep);
  const double above = subject.value();
  value.copy_(before).add_(direction, -kStep);
  const double below = subject.value();
  value.copy_(before);

  const double expected = (above - below) / (2 * kStep);
  const double got = (gradient * direction).sum().item<double>();
  // The error from rounding of the two values, and from the third derivative.
  const double rounding = 1e-14 * (1 + std::abs(above)) / kStep;
  EXPECT_NEAR(got, expected, 2e-6 * std::abs(expected) + rounding) << name;
}

struct Chain {
  std::string name;
  ChainModel model;
};

class Gradients : public testing::TestWithParam<Chain> {};

TEST_P(Gradients, AreCentralDifferences) {
  Built chain(GetParam().model);
  const Examples examples(chain.model, 3);
  Values x{examples.input};
  if (x[0].is_floating_point()) x[0] = x[0].to(at::kDouble);
  for (int i = 1; i <= chain.model.length(); ++i) {
    Layer& layer = chain.layer(i);
    use_doubles(layer);
    const Subject subject{layer, x, i == chain.model.length() ? Values{examples.target} : Values{}};
    const Values of_input = subject.differentiate();
    const std::string name = chain.model.layers[static_cast<std::size_t>(i - 1)].name;
    for (const Parameter& parameter : layer.parameters())
      expect_gradient(subject, parameter.value, parameter.value.grad(),
                      name + " " + parameter.name);
    for (std::size_t k = 0; k < of_input.size(); ++k)
      expect_gradient(subject, x[k], of_input[k], concat(name, " input ", k));
    x = untaped_forward(layer, x, context(true, subject.target), Precision::kFloat32);
  }
}

INSTANTIATE_TEST_SUITE_P(
    OfLayers, Gradients,
    testing::Values(
        Chain{"gpt", small_gpt("half_block")}, Chain{"gpt_fine", small_gpt("fine")},
        Chain{"llama", small_llama("block")}, Chain{"llama_fine", small_llama("fine")},
        Chain{"decoder", small_decoder("block")}, Chain{"decoder_fine", small_decoder("fine")},
        Chain{"windowed_decoder", small_windowed_decoder("half_block")}, Chain{"vit", small_vit()},
        Chain{"resnet18", small_resnet18()},
        Chain{"resnet50", make_resnet({.depth = 50, .image_size = 33, .width = 2, .stem = "7x7"})},
        Chain{"vgg", small_vgg()},
        Chain{"vgg_without_norm",
              make_vgg({.depth = 11, .image_size = 32, .width = 2, .batch_norm = false})}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace trireme::model
