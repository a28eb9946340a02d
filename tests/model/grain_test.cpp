// However a transformer is cut into layers, it computes the same bits.
// SPDX-License-Identifier: Apache-2.0
#include "built.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>

namespace trireme::model {
namespace {

struct Transformer {
  std::string name;
  std::function<ChainModel(const std::string& grain)> make;
};

class Grain : public testing::TestWithParam<std::tuple<Transformer, Precision>> {};

/// Loss, initial values and gradients in chain order.
struct Outcome {
  at::Tensor loss;
  Values initial, gradients;
};

Outcome outcome(const ChainModel& model, Precision precision) {
  Built chain(model, precision);
  Outcome result;
  for (const Parameter& parameter : chain.parameters())
    result.initial.push_back(parameter.value.detach().clone());
  result.loss = run(chain, Examples(model, 3), precision);
  for (const Parameter& parameter : chain.parameters())
    result.gradients.push_back(parameter.value.grad());
  return result;
}

TEST_P(Grain, ChangesNoBit) {
  const auto& [transformer, precision] = GetParam();
  const Outcome whole = outcome(transformer.make("block"), precision);
  for (const std::string grain : {"half_block", "fine"}) {
    const Outcome cut = outcome(transformer.make(grain), precision);

    EXPECT_TRUE(at::equal(cut.loss, whole.loss)) << grain;
    ASSERT_EQ(cut.gradients.size(), whole.gradients.size()) << grain;
    for (std::size_t i = 0; i < whole.gradients.size(); ++i) {
      EXPECT_TRUE(at::equal(cut.initial[i], whole.initial[i])) << grain << " parameter " << i;
      EXPECT_TRUE(at::equal(cut.gradients[i], whole.gradients[i])) << grain << " parameter " << i;
      EXPECT_GT(whole.gradients[i].abs().max().item<float>(), 0) << i;
    }
  }
}

ChainModel gpt(const std::string& grain) {
  return make_gpt(
      {.blocks = 3, .width = 48, .heads = 3, .context = 37, .vocabulary = 100, .grain = grain});
}

ChainModel llama(const std::string& grain) {
  return make_llama({.blocks = 3,
                     .width = 48,
                     .heads = 6,
                     .kv_heads = 2,
                     .context = 37,
                     .vocabulary = 100,
                     .grain = grain});
}

ChainModel vit(const std::string& grain) {
  return make_vit(
      {.image_size = 24, .patch = 4, .blocks = 3, .width = 48, .heads = 3, .grain = grain});
}

std::string suffix(Precision precision) {
  constexpr std::array kSuffixes{"", "_bfloat16", "_bfloat16_weights"};
  return kSuffixes.at(static_cast<std::size_t>(precision));
}

INSTANTIATE_TEST_SUITE_P(OfTransformers, Grain,
                         testing::Combine(testing::Values(Transformer{"gpt", gpt},
                                                          Transformer{"llama", llama},
                                                          Transformer{"vit", vit}),
                                          testing::Values(Precision::kFloat32, Precision::kBfloat16,
                                                          Precision::kBfloat16Weights)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + suffix(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace trireme::model
