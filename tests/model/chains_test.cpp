// Layers and parameter counts of the built-in chains, compared with published ones.
// SPDX-License-Identifier: Apache-2.0
#include "built.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace trireme::model {
namespace {

using testing::ElementsAre;

std::vector<std::string> names(const ChainModel& model) {
  std::vector<std::string> all;
  for (const LayerRecipe& layer : model.layers) all.push_back(layer.name);
  return all;
}

/// Parameters of a chain, a tied weight counted once. Holds one layer at a time, and builds one of
/// equal layers.
std::int64_t count_parameters(const ChainModel& model) {
  std::int64_t count = 0;
  std::set<std::string> ties;
  std::map<std::string, std::int64_t> known;
  for (int i = 1; i <= model.length(); ++i) {
    const std::string& kind = model.layers[static_cast<std::size_t>(i - 1)].kind;
    if (!known.contains(kind)) {
      const auto layer = build(model, i);
      for (const Parameter& parameter : layer->parameters()) {
        if (parameter.tie.empty() || ties.insert(parameter.tie).second)
          known[kind] += parameter.value.numel();
      }
    }
    count += known[kind];
  }
  return count;
}

std::int64_t count_parameters(const Built& chain) {
  std::int64_t count = 0;
  for (const Parameter& parameter : chain.parameters()) count += parameter.value.numel();
  return count;
}

config::ResnetSpec published_resnet(int depth) {
  return {.depth = depth, .image_size = 224, .classes = 1000, .stem = "7x7"};
}

TEST(Parameters, OfResidualNetworksAreAsPublished) {
  EXPECT_EQ(count_parameters(Built(make_resnet(published_resnet(18)))), 11'689'512);
  EXPECT_EQ(count_parameters(Built(make_resnet(published_resnet(50)))), 25'557'032);
  EXPECT_EQ(count_parameters(make_resnet(published_resnet(34))), 21'797'672);
  EXPECT_EQ(count_parameters(make_resnet(published_resnet(101))), 44'549'160);
  EXPECT_EQ(count_parameters(make_resnet(published_resnet(152))), 60'192'808);
}

TEST(Parameters, OfVggAreAsPublished) {
  config::VggSpec spec{.depth = 16, .image_size = 224, .classes = 1000, .batch_norm = false};
  EXPECT_EQ(count_parameters(make_vgg(spec)), 138'357'544);
  // The other depths differ only in convolutions: with narrow ones, the sum over their 3x3 windows.
  spec.width = 2;
  const std::int64_t c = 3, rest = count_parameters(make_vgg(spec));
  spec.depth = 19;  // one of 8 to 8 and two of 16 to 16 more
  EXPECT_EQ(count_parameters(make_vgg(spec)) - rest,
            (c * c * 8 * 8 + 8) + 2 * (c * c * 16 * 16 + 16));
}

TEST(Parameters, OfTheVisionTransformerAreAsPublished) {
  const ChainModel base = make_vit(
      {.image_size = 224, .patch = 16, .blocks = 12, .width = 768, .heads = 12, .classes = 1000});
  EXPECT_EQ(count_parameters(base), 86'567'656);
  // DeiT-tiny (Touvron et al. 2021).
  const Built tiny(make_vit(
      {.image_size = 224, .patch = 16, .blocks = 12, .width = 192, .heads = 3, .classes = 1000}));
  EXPECT_EQ(count_parameters(tiny), 5'717'416);
}

TEST(Parameters, OfLanguageModelsAreAsPublished) {
  const config::GptSpec gpt2{
      .blocks = 12, .width = 768, .heads = 12, .context = 1024, .vocabulary = 50257};
  EXPECT_EQ(count_parameters(make_gpt(gpt2)), 124'439'808);
  // TinyLlama 1.1B (Zhang et al. 2024): the block that repeats 22 times, and the rest in closed
  // form.
  const config::LlamaSpec llama{.blocks = 1,
                                .width = 2048,
                                .heads = 32,
                                .kv_heads = 4,
                                .hidden = 5632,
                                .context = 4,
                                .vocabulary = 8};
  const std::int64_t outside = 2 * 8 * 2048 + 2048;
  EXPECT_EQ(22 * (count_parameters(make_llama(llama)) - outside) + 2 * 32000 * 2048 + 2048,
            1'100'048'384);
}

TEST(Gpt, HasALayerForEveryPieceOfItsGrain) {
  config::GptSpec spec{.blocks = 1, .width = 8, .heads = 2, .context = 4, .vocabulary = 10};
  EXPECT_THAT(names(make_gpt(spec)),
              ElementsAre("embedding", "block0.attention", "block0.mlp", "head"));
  spec.grain = "block";
  EXPECT_THAT(names(make_gpt(spec)), ElementsAre("embedding", "block0", "head"));
  spec.grain = "fine";
  EXPECT_THAT(
      names(make_gpt(spec)),
      ElementsAre("embedding", "block0.attention.qkv", "block0.attention.core",
                  "block0.attention.projection", "block0.mlp.up", "block0.mlp.down", "head"));
}

TEST(Resnet, HasALayerForEveryBlock) {
  EXPECT_THAT(
      names(make_resnet({.depth = 18})),
      ElementsAre("stem", "group0.block0", "group0.block1", "group1.block0", "group1.block1",
                  "group2.block0", "group2.block1", "group3.block0", "group3.block1", "head"));
  EXPECT_EQ(make_resnet({.depth = 50}).length(), 18);
  EXPECT_EQ(make_resnet({.depth = 152}).length(), 52);
}

TEST(Vgg, HasALayerForEveryWeight) {
  EXPECT_THAT(
      names(make_vgg({.depth = 11})),
      ElementsAre("group0.conv0", "group1.conv0", "group2.conv0", "group2.conv1", "group3.conv0",
                  "group3.conv1", "group4.conv0", "group4.conv1", "hidden0", "hidden1", "head"));
  EXPECT_EQ(make_vgg({.depth = 16}).length(), 16);
  EXPECT_EQ(make_vgg({.depth = 19}).length(), 19);
}

using Sizes = std::vector<std::int64_t>;

std::vector<Sizes> first_sizes(const std::vector<Values>& all) {
  std::vector<Sizes> sizes;
  for (const Values& values : all) sizes.push_back(values.at(0).sizes().vec());
  return sizes;
}

TEST(Resnet, HalvesMapsAndDoublesChannels) {
  Built small(make_resnet({.depth = 18, .image_size = 17, .channels = 1, .width = 4}));
  EXPECT_THAT(
      first_sizes(outputs(small, Examples(small.model, 2))),
      ElementsAre(Sizes{2, 1, 17, 17}, Sizes{2, 4, 17, 17}, Sizes{2, 4, 17, 17},
                  Sizes{2, 4, 17, 17}, Sizes{2, 8, 9, 9}, Sizes{2, 8, 9, 9}, Sizes{2, 16, 5, 5},
                  Sizes{2, 16, 5, 5}, Sizes{2, 32, 3, 3}, Sizes{2, 32, 3, 3}, Sizes{}));
  Built wide(make_resnet({.depth = 50, .image_size = 64, .width = 4, .stem = "7x7"}));
  const std::vector<Sizes> sizes = first_sizes(outputs(wide, Examples(wide.model, 2)));
  EXPECT_EQ(sizes[1], (Sizes{2, 4, 16, 16}));
  EXPECT_EQ(sizes[2], (Sizes{2, 16, 16, 16}));
  EXPECT_EQ(sizes[17], (Sizes{2, 128, 2, 2}));
}

TEST(Vgg, PoolsAtTheEndOfEveryGroup) {
  Built vgg(make_vgg({.depth = 11, .image_size = 70, .width = 1}));
  const std::vector<Sizes> sizes = first_sizes(outputs(vgg, Examples(vgg.model, 2)));
  EXPECT_EQ(sizes[1], (Sizes{2, 1, 35, 35}));
  EXPECT_EQ(sizes[3], (Sizes{2, 4, 17, 17}));
  EXPECT_EQ(sizes[8], (Sizes{2, 8, 2, 2}));
  EXPECT_EQ(sizes[9], (Sizes{2, 64}));
  EXPECT_EQ(sizes[11], Sizes{});
}

TEST(Vgg, PoolsLargeMapsToSevenBySeven) {
  Built vgg(make_vgg({.depth = 11, .image_size = 256, .width = 1}));
  EXPECT_EQ(vgg.layer(9).parameters()[0].value.sizes(), (at::IntArrayRef{64, 8 * 7 * 7}));
  EXPECT_EQ(first_sizes(outputs(vgg, Examples(vgg.model, 2)))[9], (Sizes{2, 64}));
}

TEST(Vit, PutsAClassTokenBeforeThePatches) {
  Built vit(make_vit({.image_size = 12, .patch = 4, .blocks = 1, .width = 6, .heads = 2}));
  const std::vector<Sizes> sizes = first_sizes(outputs(vit, Examples(vit.model, 2)));
  for (std::size_t i = 1; i <= 3; ++i) EXPECT_EQ(sizes[i], (Sizes{2, 10, 6}));
}

TEST(FineGrain, HandsOnFreshTensorsAndTheResidual) {
  Built llama(make_llama({.blocks = 1,
                          .width = 24,
                          .heads = 6,
                          .kv_heads = 2,
                          .hidden = 40,
                          .context = 5,
                          .vocabulary = 10,
                          .grain = "fine"}));
  const std::vector<Values> all = outputs(llama, Examples(llama.model, 2));
  const auto sizes = [&](std::size_t layer) {
    std::vector<Sizes> of;
    for (const at::Tensor& value : all[layer]) of.push_back(value.sizes().vec());
    return of;
  };
  const Sizes residual{2, 5, 24}, hidden{2, 5, 40};
  EXPECT_THAT(sizes(2),
              ElementsAre(Sizes{2, 5, 6, 4}, Sizes{2, 5, 2, 4}, Sizes{2, 5, 8}, residual));
  EXPECT_THAT(sizes(3), ElementsAre(residual, residual));
  EXPECT_THAT(sizes(4), ElementsAre(residual));
  EXPECT_THAT(sizes(5), ElementsAre(hidden, hidden, residual));
  EXPECT_THAT(sizes(6), ElementsAre(residual));
  for (const Values& values : all) {
    for (const at::Tensor& value : values) EXPECT_TRUE(value.is_contiguous());
  }
}

TEST(Work, OfAResidualNetworkIsAsPublished) {
  // He et al. 2016: 3.6 and 3.8 x 10^9 multiply-adds; 4.1 with the stride at the 3x3.
  const auto total = [](const ChainModel& model) {
    double sum = 0;
    for (const LayerRecipe& layer : model.layers) sum += layer.work;
    return sum;
  };
  EXPECT_NEAR(total(make_resnet(published_resnet(34))), 3.66e9, 0.05e9);
  EXPECT_NEAR(total(make_resnet(published_resnet(50))), 4.09e9, 0.05e9);
  EXPECT_NEAR(total(make_vgg({.image_size = 224, .classes = 1000})), 15.5e9, 0.1e9);
}

TEST(MakeModel, KnowsEveryBuiltInKind) {
  for (const config::ModelSpec& spec : {config::ModelSpec(config::GptSpec{}),
                                        {config::LlamaSpec{}},
                                        {config::VitSpec{}},
                                        {config::ResnetSpec{}},
                                        {config::VggSpec{}},
                                        {config::MlpSpec{}}}) {
    EXPECT_EQ(make_model(spec).name.substr(0, 3), config::kind_of(spec).substr(0, 3));
  }
}

}  // namespace
}  // namespace trireme::model
