// Layers of graphs: their traces give the gradients of one autograd graph of the whole model.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/traced.h"

#include "trireme/core/error.h"
#include "trireme/model/graph.h"
#include "trireme/model/taped.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <vector>

namespace trireme::model {
namespace {

config::ResnetSpec small_resnet(int depth, const char* stem) {
  return {.depth = depth, .image_size = 16, .width = 4, .stem = stem, .grain = "operator"};
}

/// A graph's layers on one micro-batch.
class Built {
 public:
  explicit Built(const ChainModel& model) : model_(model) {
    for (int number = 1; number <= model.length(); ++number)
      layers_.push_back(model.layers[static_cast<std::size_t>(number) - 1].build(Seeds(3, number)));
    at::Generator from = at::detail::createCPUGenerator();
    input_ = at::empty({4, 3, 16, 16}).normal_(0, 1, from);
    target_ = at::empty({4}, at::kLong).random_(0, 10, from);
  }

  Context context(int number) const {
    return {.generator = at::detail::createCPUGenerator(),
            .training = true,
            .target = number == model_.length() ? Values{target_} : Values{}};
  }
  Values inputs(const std::vector<at::Tensor>& values, int number) const {
    Values read;
    for (const int input : model_.inputs[static_cast<std::size_t>(number) - 1])
      read.push_back(values[static_cast<std::size_t>(input)]);
    return read;
  }
  /// Gradients of all parameters, which it resets.
  std::vector<at::Tensor> take_gradients() {
    std::vector<at::Tensor> gradients;
    for (const auto& layer : layers_)
      for (const Parameter& parameter : layer->parameters()) {
        gradients.push_back(parameter.value.grad());
        parameter.value.mutable_grad().reset();
      }
    return gradients;
  }

  /// By LibTorch alone.
  std::vector<at::Tensor> by_autograd() {
    std::vector<at::Tensor> values{input_};
    for (int number = 1; number <= model_.length(); ++number)
      values.push_back(layer(number).forward(inputs(values, number), context(number)).at(0));
    values.back().backward();
    return take_gradients();
  }

  /// By the traces, every gradient `times` times.
  std::vector<at::Tensor> by_traces(int times = 1) {
    const std::vector<GradientNode> nodes = gradient_nodes(model_);
    std::vector<at::Tensor> values{input_}, gradients(model_.layers.size() + 1);
    std::vector<Trace> traces(1);
    for (int number = 1; number <= model_.length(); ++number) {
      std::vector<bool> wants;
      for (const int input : model_.inputs[static_cast<std::size_t>(number) - 1])
        wants.push_back(input > 0);
      Traced traced = traced_forward(layer(number), inputs(values, number), context(number),
                                     Precision::kFloat32, wants);
      values.push_back(traced.output);
      traces.push_back(std::move(traced.trace));
    }
    gradients.back() = at::ones_like(values.back());
    for (const GradientNode& node : nodes) {
      for (int time = 0; time < times; ++time) {
        at::Tensor sum;
        for (const GradientNode::Use& use : node.uses) {
          const auto at = static_cast<std::size_t>(use.layer);
          const at::Tensor part =
              traces[at].backward({.inputs = inputs(values, use.layer),
                                   .output = values[at],
                                   .gradient = gradients[at]},
                                  static_cast<std::size_t>(use.input),
                                  use.adds_weights && time == 0 ? layer(use.layer).parameters()
                                                                : std::vector<Parameter>{});
          if (node.gives_gradient) sum = sum.defined() ? sum + part : part;
        }
        at::Tensor& kept = gradients[static_cast<std::size_t>(node.value)];
        if (time > 0 && sum.defined()) EXPECT_TRUE(at::equal(kept, sum));
        kept = sum;
      }
    }
    return take_gradients();
  }

 private:
  Layer& layer(int number) { return *layers_[static_cast<std::size_t>(number) - 1]; }

  const ChainModel& model_;
  std::vector<std::unique_ptr<Layer>> layers_;
  at::Tensor input_, target_;
};

void expect_equal(const std::vector<at::Tensor>& found, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(found[i].defined()) << i;
    EXPECT_TRUE(at::equal(found[i], expected[i])) << i;
  }
}

class Resnets : public testing::TestWithParam<std::pair<int, const char*>> {};

TEST_P(Resnets, HaveTheGradientsOfAutograd) {
  const ChainModel model = make_resnet(small_resnet(GetParam().first, GetParam().second));
  Built built(model);
  const std::vector<at::Tensor> expected = built.by_autograd();
  expect_equal(built.by_traces(), expected);
}

// A gradient that is computed again adds nothing to those of weights.
TEST_P(Resnets, MayComputeAGradientAgain) {
  const ChainModel model = make_resnet(small_resnet(GetParam().first, GetParam().second));
  Built built(model);
  const std::vector<at::Tensor> expected = built.by_autograd();
  expect_equal(built.by_traces(2), expected);
}

INSTANTIATE_TEST_SUITE_P(Depths, Resnets,
                         testing::Values(std::pair{18, "3x3"}, std::pair{18, "7x7"},
                                         std::pair{50, "3x3"}),
                         [](const auto& test) {
                           return std::to_string(test.param.first) + "_" + test.param.second;
                         });

TEST(GradientNodes, SumOverTheLayersThatReadAValueAndAddEachLayersWeightsOnce) {
  ChainModel model;
  for (const bool has_weights : {true, false, true, false})
    model.layers.push_back({.name = "layer", .has_weights = has_weights});
  model.inputs = {{0}, {1}, {1, 2}, {3}};
  const std::vector<GradientNode> nodes = gradient_nodes(model);
  ASSERT_EQ(nodes.size(), 4U);
  EXPECT_EQ(nodes[0].value, 3);
  EXPECT_EQ(nodes[1].value, 2);
  ASSERT_EQ(nodes[1].uses.size(), 1U);
  EXPECT_TRUE(nodes[1].uses[0].adds_weights);  // of layer 3, whose other input is value 1
  ASSERT_EQ(nodes[2].uses.size(), 2U);
  EXPECT_EQ(nodes[2].uses[0].layer, 3);
  EXPECT_FALSE(nodes[2].uses[0].adds_weights);
  EXPECT_EQ(nodes[2].uses[1].layer, 2);
  EXPECT_EQ(nodes[3].value, 0);
  EXPECT_FALSE(nodes[3].gives_gradient);
  EXPECT_TRUE(nodes[3].uses.at(0).adds_weights);
}

/// Returns two tensors.
class Pair final : public Layer {
 public:
  Values forward(const Values& input, const Context&) override {
    return {input[0] * 2, input[0] * 3};
  }
};

TEST(TracedForward, RefusesALayerOfSeveralOutputs) {
  Pair pair;
  const Context context{.generator = at::detail::createCPUGenerator(), .target = {}};
  EXPECT_THROW(traced_forward(pair, {at::ones({2})}, context, Precision::kFloat32, {true}),
               InputError);
}

// What the backward reads is only what it needs: the input of a product, the output of a ReLU.
TEST(TracedForward, TellsWhatTheBackwardReads) {
  const ChainModel model = make_resnet(small_resnet(18, "3x3"));
  const Context context{.generator = at::detail::createCPUGenerator(), .target = {}};
  const auto traced = [&](int number, const at::Tensor& input) {
    const auto layer = model.layers[static_cast<std::size_t>(number) - 1].build(Seeds(1, number));
    return traced_forward(*layer, {input}, context, Precision::kFloat32, {true});
  };
  const Traced convolution = traced(1, at::ones({2, 3, 8, 8})),
               relu = traced(3, at::ones({2, 4, 8, 8}));
  EXPECT_TRUE(convolution.trace.reads_input(0));
  EXPECT_FALSE(convolution.trace.reads_output());
  EXPECT_TRUE(convolution.trace.kept().empty());
  EXPECT_FALSE(relu.trace.reads_input(0));
  EXPECT_TRUE(relu.trace.reads_output());
}

}  // namespace
}  // namespace trireme::model
