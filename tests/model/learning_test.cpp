// Every chain can overfit one batch.
// SPDX-License-Identifier: Apache-2.0
#include "built.h"

#include <gtest/gtest.h>

namespace trireme::model {
namespace {

struct Task {
  std::string name;
  ChainModel model;
  double learning_rate;
  int steps;
};

class Learning : public testing::TestWithParam<Task> {};

/// Gradient descent with momentum 0.9.
TEST_P(Learning, BringsTheLossDown) {
  Built chain(GetParam().model);
  const Examples examples(chain.model, 8);
  const std::vector<Parameter> parameters = chain.parameters();
  Values speeds;
  for (const Parameter& parameter : parameters) speeds.push_back(at::zeros_like(parameter.value));
  const double first = run(chain, examples).item<double>();
  double last = first;
  for (int step = 1; step < GetParam().steps; ++step) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      at::Tensor value = parameters[i].value.detach();
      value.add_(speeds[i].mul_(0.9).add_(parameters[i].value.grad()), -GetParam().learning_rate);
      parameters[i].value.mutable_grad().zero_();
    }
    last = run(chain, examples).item<double>();
  }

  EXPECT_NEAR(first, std::log(static_cast<double>(chain.model.classes)), 1.0);
  EXPECT_LT(last, 0.5 * first);
}

INSTANTIATE_TEST_SUITE_P(
    OfABatch, Learning,
    testing::Values(
        Task{"gpt",
             make_gpt({.blocks = 2, .width = 32, .heads = 2, .context = 4, .vocabulary = 16}), 0.1,
             60},
        Task{"llama",
             make_llama({.blocks = 2, .width = 32, .heads = 2, .context = 4, .vocabulary = 16}),
             0.1, 60},
        Task{"vit", make_vit({.image_size = 8, .patch = 4, .blocks = 2, .width = 32, .heads = 2}),
             0.05, 40},
        Task{"resnet18", make_resnet({.depth = 18, .image_size = 16, .width = 4}), 0.05, 20},
        Task{"resnet50", make_resnet({.depth = 50, .image_size = 16, .width = 4}), 0.05, 20},
        Task{"vgg", make_vgg({.depth = 11, .image_size = 32, .width = 4, .dropout = 0}), 0.02, 20}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace trireme::model
