// Residual blocks and VGG layers against their formulas; batch norm in training and evaluation.
// SPDX-License-Identifier: Apache-2.0
#include "built.h"
#include "support/input_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace trireme::model {
namespace {

using support::input_error;
using testing::HasSubstr;

/// Parameters and buffers of a layer in double, by name; parameters different from zeros and ones.
std::map<std::string, at::Tensor> doubles(Layer& layer) {
  std::map<std::string, at::Tensor> by_name;
  at::Generator from = at::detail::createCPUGenerator(1);
  for (const Parameter& parameter : layer.parameters()) {
    const at::Tensor noise = at::empty(parameter.value.sizes(), at::kDouble).normal_(0, 0.1, from);
    parameter.value.set_data(parameter.value.detach().to(at::kDouble) + noise);
    by_name[parameter.name] = parameter.value.detach();
  }
  for (const Buffer& buffer : layer.buffers()) {
    buffer.value.set_data(buffer.value.to(at::kDouble));
    by_name[buffer.name] = buffer.value;
  }
  return by_name;
}

at::Tensor random(at::IntArrayRef sizes) {
  return at::empty(sizes, at::kDouble).normal_(0, 1, at::detail::createCPUGenerator(2));
}

at::Tensor forward(Layer& layer, const at::Tensor& x, bool training) {
  return untaped_forward(layer, {x}, context(training), Precision::kFloat32).at(0);
}

void expect_close(const at::Tensor& a, const at::Tensor& b) {
  ASSERT_EQ(a.sizes(), b.sizes());
  EXPECT_TRUE(at::allclose(a, b, 1e-10, 1e-10)) << (a - b).abs().max().item<double>();
}

/// One number per channel, broadcast to maps.
at::Tensor per_channel(const at::Tensor& values) {
  return values.view({1, -1, 1, 1});
}

/// (x - mean) / deviation x weight + bias, with statistics of the batch or of the buffers.
at::Tensor normed(const at::Tensor& x, std::map<std::string, at::Tensor>& p,
                  const std::string& name, bool training) {
  const at::Tensor mean =
      training ? x.mean({0, 2, 3}, true) : per_channel(p[name + ".running_mean"]);
  const at::Tensor variance =
      training ? (x - mean).square().mean({0, 2, 3}, true) : per_channel(p[name + ".running_var"]);
  return (x - mean) / at::sqrt(variance + 1e-5) * per_channel(p[name + ".weight"]) +
         per_channel(p[name + ".bias"]);
}

at::Tensor convolved(const at::Tensor& x, std::map<std::string, at::Tensor>& p,
                     const std::string& name, std::int64_t stride, bool training) {
  const at::Tensor& weight = p[name + ".conv.weight"];
  return normed(at::conv2d(x, weight, {}, stride, weight.size(2) / 2), p, name + ".norm", training);
}

config::ResnetSpec resnet(int depth) {
  return {.depth = depth, .image_size = 12, .channels = 2, .width = 3};
}

TEST(BasicBlock, IsItsFormula) {
  // The first of the second group: half the side, twice the channels.
  const auto block = build(make_resnet(resnet(18)), 4);
  auto p = doubles(*block);
  const at::Tensor x = random({2, 3, 6, 6});

  const at::Tensor inner = at::relu(convolved(x, p, "path0", 2, true));
  const at::Tensor expected =
      at::relu(convolved(inner, p, "path1", 1, true) + convolved(x, p, "shortcut", 2, true));
  expect_close(forward(*block, x, true), expected);
}

TEST(Bottleneck, IsItsFormula) {
  const auto block = build(make_resnet(resnet(50)), 3);  // second of the first group: no shortcut
  auto p = doubles(*block);
  const at::Tensor x = random({2, 12, 6, 6});

  at::Tensor inner = at::relu(convolved(x, p, "path0", 1, true));
  inner = at::relu(convolved(inner, p, "path1", 1, true));
  expect_close(forward(*block, x, true), at::relu(convolved(inner, p, "path2", 1, true) + x));
  EXPECT_FALSE(p.contains("shortcut.conv.weight"));
}

TEST(BatchNorm, UsesItsStatisticsInEvaluation) {
  const auto block = build(make_resnet(resnet(18)), 4);
  auto p = doubles(*block);
  const at::Tensor x = random({2, 3, 6, 6});
  for (int i = 0; i < 3; ++i) forward(*block, x, true);

  const at::Tensor inner = at::relu(convolved(x, p, "path0", 2, false));
  const at::Tensor expected =
      at::relu(convolved(inner, p, "path1", 1, false) + convolved(x, p, "shortcut", 2, false));
  const at::Tensor before = p["path0.norm.running_mean"].clone();
  expect_close(forward(*block, x, false), expected);
  EXPECT_TRUE(at::equal(p["path0.norm.running_mean"], before));
  EXPECT_FALSE(at::allclose(forward(*block, x, true), expected));
}

TEST(BatchNorm, MovesItsStatisticsByATenth) {
  const auto stem = build(make_resnet(resnet(18)), 1);
  auto p = doubles(*stem);
  const at::Tensor x = random({2, 2, 12, 12});
  const at::Tensor y = at::conv2d(x, p["stem.conv.weight"], {}, 1, 1);
  forward(*stem, x, true);

  expect_close(p["stem.norm.running_mean"], 0.1 * y.mean({0, 2, 3}));
  // The unbiased variance, as in other implementations.
  expect_close(p["stem.norm.running_var"], 0.9 + 0.1 * y.var(at::IntArrayRef{0, 2, 3}, true));
}

TEST(BatchNorm, RefusesASingleValue) {
  const auto last = build(make_resnet({.depth = 18, .image_size = 8, .width = 2}), 8);
  const at::Tensor x = at::ones({1, 8, 2, 2});

  EXPECT_THAT(input_error([&] { untaped_forward(*last, {x}, context(), Precision::kFloat32); }),
              HasSubstr("one value per channel"));
  EXPECT_NO_THROW(untaped_forward(*last, {x}, context(false), Precision::kFloat32));
  EXPECT_NO_THROW(untaped_forward(*last, {at::ones({2, 8, 2, 2})}, context(), Precision::kFloat32));
}

// oneDNN's gradients of a strided 3x3 kernel over 1x1 maps in bfloat16 read beyond the map.
TEST(Convolution, OfASinglePixelGivesTapsOverPaddingNoGradient) {
  const auto layers = make_resnet({.depth = 18, .image_size = 8, .width = 4, .stem = "7x7"});
  const auto last = build(layers, 8);
  lower_weights(*last, Precision::kBfloat16Weights);
  const at::Tensor x = at::ones({4, 16, 1, 1}, at::kBFloat16);

  Tape tape =
      taped_forward(*last, {x}, context(), Precision::kBfloat16Weights, InputGradient::kNeeded);
  Values gradients;
  for (const at::Tensor& output : tape.outputs) gradients.push_back(at::ones_like(output));
  backward(std::move(tape), gradients);

  int kernels = 0;
  for (const Parameter& parameter : last->parameters()) {
    if (parameter.value.dim() != 4 || parameter.value.size(2) == 1) continue;
    ++kernels;
    at::Tensor of_taps = parameter.value.grad().clone();
    of_taps.select(3, 1).select(2, 1).zero_();
    EXPECT_EQ(of_taps.abs().max().item<float>(), 0) << parameter.name;
  }
  EXPECT_EQ(kernels, 2);  // of a basic block
}

TEST(VggLayer, IsItsFormula) {
  const auto layer = build(make_vgg({.depth = 11, .width = 3}), 2);
  auto p = doubles(*layer);
  const at::Tensor x = random({2, 3, 9, 9});

  const at::Tensor y =
      normed(at::conv2d(x, p["conv.weight"], p["conv.bias"], 1, 1), p, "norm", true);
  expect_close(forward(*layer, x, true), at::max_pool2d(at::relu(y), 2));
}

TEST(VggLayer, DropsHiddenValuesInTrainingOnly) {
  const auto hidden = build(make_vgg({.depth = 11, .width = 3, .dropout = 0.5}), 10);
  const at::Tensor x = random({4, 192}).to(at::kFloat);
  const auto zeros = [&](bool training) {
    return forward(*hidden, x, training).eq(0).to(at::kFloat).mean().item<double>();
  };

  EXPECT_NEAR(zeros(false), 0.5, 0.1);  // by the ReLU
  EXPECT_NEAR(zeros(true), 0.75, 0.1);
}

TEST(Convolutions, StartWithTheVarianceOfTheirFanOut) {
  // He et al. 2015: 2 / (channels out x 3 x 3).
  const auto layer = build(make_vgg({.depth = 11, .width = 16}), 4);
  const at::Tensor weight = layer->parameters()[0].value;
  ASSERT_EQ(weight.sizes(), (at::IntArrayRef{64, 64, 3, 3}));

  // 36864 draws: the variance is known to sqrt(2 / 36864) = 0.7 %.
  EXPECT_NEAR(weight.var().item<double>() * 64 * 9 / 2, 1, 5 * 0.007);
}

}  // namespace
}  // namespace trireme::model
