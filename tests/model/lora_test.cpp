// LoRA adapters, and which parameters are trained.
// SPDX-License-Identifier: Apache-2.0
#include "built.h"
#include "support/input_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace trireme::model {
namespace {

using support::input_error;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

struct Tuned {
  std::string name;
  config::ModelSpec with, without;
};

void PrintTo(const Tuned& each, std::ostream* out) {
  *out << each.name;
}

config::GptSpec small_gpt(const std::string& grain) {
  config::GptSpec spec{.blocks = 2, .width = 32, .heads = 2, .context = 12, .vocabulary = 40};
  spec.grain = grain;
  return spec;
}

std::vector<Tuned> all_tuned() {
  const config::GptSpec gpt = small_gpt("half_block");
  config::GptSpec all = gpt;
  all.lora_rank = 3;
  config::GptSpec some = all;
  some.lora_targets = {"qkv", "down"};
  const config::LlamaSpec llama{
      .blocks = 2, .width = 32, .heads = 4, .kv_heads = 2, .context = 12, .vocabulary = 40};
  config::LlamaSpec of_llama = llama;
  of_llama.lora_rank = 5;
  of_llama.lora_alpha = 8;
  config::LlamaSpec biased = llama, of_biased = of_llama;
  biased.qkv_bias = of_biased.qkv_bias = true;
  return {{"gpt", all, gpt},
          {"gpt_some", some, gpt},
          {"llama", of_llama, llama},
          {"llama_biased", of_biased, biased}};
}

class Lora : public testing::TestWithParam<Tuned> {
 protected:
  /// By layer and name.
  static std::map<std::string, Parameter> parameters_of(Built& chain) {
    std::map<std::string, Parameter> all;
    for (std::size_t i = 0; i < chain.layers.size(); ++i)
      for (const Parameter& parameter : chain.layers[i]->parameters())
        all.emplace(concat(chain.model.layers[i].name, "/", parameter.name), parameter);
    return all;
  }

  static double scale_of(const config::ModelSpec& spec) {
    if (const auto* gpt = std::get_if<config::GptSpec>(&spec))
      return gpt->lora_alpha / gpt->lora_rank;
    const auto& llama = std::get<config::LlamaSpec>(spec);
    return llama.lora_alpha / llama.lora_rank;
  }

  static void randomize(const at::Tensor& lora_B) {
    at::Generator from = at::detail::createCPUGenerator(11);
    lora_B.detach().normal_(0, 0.1, from);
  }
};

TEST_P(Lora, BeginsWithTheBitsOfTheModelWithoutIt) {
  for (const Precision precision :
       {Precision::kFloat32, Precision::kBfloat16, Precision::kBfloat16Weights}) {
    Built with(make_model(GetParam().with), precision);
    Built without(make_model(GetParam().without), precision);
    EXPECT_TRUE(at::equal(run(with, Examples(with.model, 2), precision),
                          run(without, Examples(without.model, 2), precision)));
  }
}

// With W' = W + s B A the chain rule gives dB = s dW' A^T and dA = s B^T dW'.
TEST_P(Lora, GivesLossAndGradientsOfTheMergedWeights) {
  Built with(make_model(GetParam().with)), merged(make_model(GetParam().without));
  const double scale = scale_of(GetParam().with);
  const auto tuned = parameters_of(with), plain = parameters_of(merged);
  int adapters = 0;
  for (const auto& [name, a] : tuned) {
    if (!name.ends_with("lora_A")) continue;
    const std::string stem = name.substr(0, name.size() - 6);
    const Parameter& b = tuned.at(stem + "lora_B");
    randomize(b.value);
    plain.at(stem + "weight").value.detach().addmm_(b.value.detach(), a.value.detach(), 1, scale);
    ++adapters;
  }
  EXPECT_GE(adapters, 4);

  const at::Tensor loss = run(with, Examples(with.model, 2));
  const at::Tensor expected = run(merged, Examples(merged.model, 2));

  EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-5);
  for (const auto& [name, a] : tuned) {
    if (!name.ends_with("lora_A")) continue;
    const std::string stem = name.substr(0, name.size() - 6);
    const at::Tensor of_merged = plain.at(stem + "weight").value.grad() * scale;
    const Parameter& b = tuned.at(stem + "lora_B");
    EXPECT_TRUE(at::allclose(b.value.grad(), of_merged.mm(a.value.detach().t()), 1e-3, 1e-6))
        << name;
    EXPECT_TRUE(at::allclose(a.value.grad(), b.value.detach().t().mm(of_merged), 1e-3, 1e-6))
        << name;
    EXPECT_GT(a.value.grad().abs().max().item<double>(), 1e-5) << name;
  }
}

TEST_P(Lora, IsAllThatIsTrained) {
  Built with(make_model(GetParam().with));
  run(with, Examples(with.model, 2));
  for (const auto& [name, parameter] : parameters_of(with)) {
    EXPECT_EQ(parameter.is_trained, name.ends_with("lora_A") || name.ends_with("lora_B")) << name;
    EXPECT_EQ(parameter.value.requires_grad(), parameter.is_trained) << name;
    EXPECT_EQ(parameter.value.grad().defined(), parameter.is_trained) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Lora, testing::ValuesIn(all_tuned()),
                         [](const auto& each) { return each.param.name; });

/// The trained parameters of all layers: "block0.mlp/norm.weight".
std::set<std::string> trained_of(const ChainModel& model) {
  std::set<std::string> trained;
  for (int i = 1; i <= model.length(); ++i) {
    const std::unique_ptr<Layer> layer = build(model, i);
    const std::string& name = model.layers[static_cast<std::size_t>(i - 1)].name;
    for (const Parameter& parameter : layer->parameters())
      if (parameter.is_trained) trained.insert(concat(name, "/", parameter.name));
  }
  return trained;
}

TEST(Trained, IsWhatThePatternsSayInEveryGrain) {
  config::GptSpec spec = small_gpt("block");
  spec.trained = {"block1.mlp.norm.*", "*up.bias"};
  EXPECT_THAT(trained_of(make_gpt(spec)),
              UnorderedElementsAre("block1/mlp.norm.weight", "block1/mlp.norm.bias",
                                   "block0/mlp.up.bias", "block1/mlp.up.bias"));
  spec.grain = "half_block";
  EXPECT_THAT(trained_of(make_gpt(spec)),
              UnorderedElementsAre("block1.mlp/norm.weight", "block1.mlp/norm.bias",
                                   "block0.mlp/up.bias", "block1.mlp/up.bias"));
  spec.grain = "fine";
  EXPECT_THAT(trained_of(make_gpt(spec)),
              UnorderedElementsAre("block1.mlp.up/norm.weight", "block1.mlp.up/norm.bias",
                                   "block0.mlp.up/up.bias", "block1.mlp.up/up.bias"));
}

TEST(Trained, AreAllUsesOfATiedWeightOrNone) {
  config::GptSpec spec = small_gpt("block");
  spec.tied_head = true;
  spec.trained = {"embedding.token.*"};
  EXPECT_THAT(trained_of(make_gpt(spec)),
              UnorderedElementsAre("embedding/token.weight", "head/output.weight"));
  spec.trained = {"head.*"};
  EXPECT_THAT(trained_of(make_gpt(spec)),
              UnorderedElementsAre("head/norm.weight", "head/norm.bias"));
}

TEST(Trained, MayBeMoreThanTheAdapters) {
  config::GptSpec spec = small_gpt("block");
  spec.blocks = 1;
  spec.lora_rank = 2;
  spec.lora_targets = {"up"};
  spec.trained = {"*lora*", "head.norm.*"};
  EXPECT_THAT(trained_of(make_gpt(spec)),
              UnorderedElementsAre("block0/mlp.up.lora_A", "block0/mlp.up.lora_B",
                                   "head/norm.weight", "head/norm.bias"));
}

TEST(Trained, AsksForNoGradientsBelowIt) {
  config::GptSpec spec = small_gpt("half_block");
  const ChainModel whole = make_gpt(spec);
  spec.trained = {"block1.mlp.*", "head.*"};
  const ChainModel top = make_gpt(spec);
  ASSERT_EQ(top.length(), 6);
  EXPECT_EQ(input_gradient(top, 1), InputGradient::kNotNeeded);
  for (const int below : {2, 3, 4, 5}) {
    EXPECT_EQ(input_gradient(top, below), InputGradient::kZeros);
    EXPECT_EQ(input_gradient(whole, below), InputGradient::kNeeded);
  }
  EXPECT_EQ(input_gradient(top, 6), InputGradient::kNeeded);

  Built all(whole), some(top);
  const Passed of_all = pass(all, Examples(whole, 2)), of_some = pass(some, Examples(top, 2));
  EXPECT_TRUE(at::equal(of_all.outputs.back()[0], of_some.outputs.back()[0]));
  for (std::size_t i = 1; i < 5; ++i) {
    ASSERT_EQ(of_some.gradients[i].size(), of_all.gradients[i].size());
    EXPECT_EQ(of_some.gradients[i][0].count_nonzero().item<std::int64_t>(), 0) << i;
  }
  const std::vector<Parameter> a = all.parameters(), b = some.parameters();
  int trained = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(b[i].value.grad().defined(), b[i].is_trained) << b[i].name;
    if (!b[i].is_trained) continue;
    EXPECT_TRUE(at::equal(a[i].value.grad(), b[i].value.grad())) << b[i].name;
    ++trained;
  }
  EXPECT_EQ(trained, 6 + 2);
}

TEST(Trained, KeepsBlocksAlikeThatAre) {
  config::GptSpec spec = small_gpt("half_block");
  spec.trained = {"*norm*"};
  EXPECT_EQ(make_gpt(spec).layers[1].kind, "attention");
  spec.trained = {"block1*"};
  EXPECT_EQ(make_gpt(spec).layers[1].kind, "");
}

TEST(Trained, IsRefusedWhereAPatternMatchesNothing) {
  config::GptSpec spec = small_gpt("fine");
  spec.trained = {"*norm*", "block7.*"};
  config::JobSpec job(
      io::parse("{model: {kind: gpt, trained: [\"*norm*\", \"block7.*\"]}}", "job"));
  job.model = spec;
  EXPECT_THAT(input_error([&] { require_trained(make_gpt(spec), job); }),
              HasSubstr("has 'block7.*', which matches no parameter; they are called "
                        "embedding.token.weight, "));
  spec.trained = {"*norm*", "block1.*"};
  job.model = spec;
  EXPECT_NO_THROW(require_trained(make_gpt(spec), job));
}

}  // namespace
}  // namespace trireme::model
