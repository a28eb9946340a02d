// A transformer computes the same bits however it is cut into layers.
// SPDX-License-Identifier: Apache-2.0
#include "built.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <map>
#include <ostream>
#include <string_view>

namespace trireme::model {
namespace {

struct Transformer {
  std::string name;
  std::function<ChainModel(const std::string& grain)> make;
};

void PrintTo(const Transformer& each, std::ostream* out) {
  *out << each.name;
}

class Grain : public testing::TestWithParam<std::tuple<Transformer, Precision>> {};

/// Results of a run, in chain order.
struct Outcome {
  Values initial;                           ///< values of parameters
  std::map<std::string, Values> after;      ///< outputs of the embedding, each block and the head
  std::map<std::string, Values> gradients;  ///< of their inputs
  Values of_parameters;
};

Outcome outcome(const ChainModel& model, Precision precision) {
  Built chain(model, precision);
  Outcome result;
  for (const Parameter& parameter : chain.parameters()) {
    if (parameter.name.ends_with("lora_B")) parameter.value.detach().fill_(0.01);
    result.initial.push_back(parameter.value.detach().clone());
  }
  const Passed passed = pass(chain, Examples(model, 3), precision);
  for (std::size_t i = 0; i < passed.outputs.size(); ++i) {
    const std::string block = split(model.layers[i].name, '.').front();
    result.after[block] = passed.outputs[i];
    result.gradients.emplace(block, passed.gradients[i]);
  }
  for (const Parameter& parameter : chain.parameters())
    if (parameter.is_trained) result.of_parameters.push_back(parameter.value.grad());
  return result;
}

/// Empty if all bits are equal.
std::string difference(const Values& from, const Values& to) {
  if (from.size() != to.size()) return concat(to.size(), " tensors instead of ", from.size());
  std::string found;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (at::equal(from[i], to[i])) continue;
    const at::Tensor by = (to[i].to(at::kDouble) - from[i].to(at::kDouble)).abs();
    found += concat(" [", i, "]: ", by.count_nonzero().item<std::int64_t>(), " of ", by.numel(),
                    " values by up to ", by.max().item<double>());
  }
  return found;
}

void expect_same(const std::map<std::string, Values>& from, const std::map<std::string, Values>& to,
                 std::string_view what) {
  ASSERT_EQ(from.size(), to.size());
  for (const auto& [block, values] : from)
    EXPECT_EQ(difference(values, to.at(block)), "") << what << " of " << block;
}

TEST_P(Grain, ChangesNoBit) {
  const auto& [transformer, precision] = GetParam();
  const Outcome whole = outcome(transformer.make("block"), precision);
  EXPECT_EQ(whole.after.size(), 5U);
  for (const at::Tensor& gradient : whole.of_parameters)
    EXPECT_GT(gradient.abs().max().item<float>(), 0);
  for (const std::string grain : {"half_block", "fine"}) {
    SCOPED_TRACE(grain);
    const Outcome cut = outcome(transformer.make(grain), precision);
    EXPECT_EQ(difference(whole.initial, cut.initial), "");
    expect_same(whole.after, cut.after, "output");
    expect_same(whole.gradients, cut.gradients, "gradients of the input");
    EXPECT_EQ(difference(whole.of_parameters, cut.of_parameters), "");
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

ChainModel decoder(const std::string& grain) {
  config::LlamaSpec spec{.blocks = 3, .width = 48, .heads = 6, .kv_heads = 2, .head_width = 10};
  spec.context = 37;
  spec.vocabulary = 100;
  spec.qkv_bias = spec.projection_bias = true;
  spec.activation = "gelu_tanh";
  spec.norms = "both";
  spec.qk_norm = "head";
  spec.zero_centered_norms = true;
  spec.attention_cap = 2;
  spec.logits_cap = 3;
  spec.window = 9;
  spec.window_blocks = {0, 2};
  spec.window_rope_base = 50;
  spec.grain = grain;
  return make_llama(spec);
}

ChainModel fused_decoder(const std::string& grain) {
  config::LlamaSpec spec{.blocks = 3, .width = 48, .heads = 6, .kv_heads = 2};
  spec.context = 37;
  spec.vocabulary = 100;
  spec.fused_linears = true;
  spec.mlp_bias = true;
  spec.norms = "after";
  spec.qk_norm = "all";
  spec.window = 9;
  spec.rope_fraction = 0.5;
  spec.residual_scale = 0.5;
  spec.lora_rank = 4;
  spec.grain = grain;
  return make_llama(spec);
}

ChainModel gpt_with_adapters(const std::string& grain) {
  config::GptSpec spec{.blocks = 3, .width = 48, .heads = 3, .context = 37, .vocabulary = 100};
  spec.grain = grain;
  spec.lora_rank = 4;
  return make_gpt(spec);
}

ChainModel vit(const std::string& grain) {
  return make_vit(
      {.image_size = 24, .patch = 4, .blocks = 3, .width = 48, .heads = 3, .grain = grain});
}

std::string suffix(Precision precision) {
  constexpr std::array kSuffixes{"", "_bfloat16", "_bfloat16_weights"};
  return kSuffixes.at(static_cast<std::size_t>(precision));
}

INSTANTIATE_TEST_SUITE_P(
    OfTransformers, Grain,
    testing::Combine(
        testing::Values(Transformer{"gpt", gpt}, Transformer{"llama", llama},
                        Transformer{"decoder", decoder},
                        Transformer{"fused_decoder", fused_decoder},
                        Transformer{"gpt_lora", gpt_with_adapters}, Transformer{"vit", vit}),
        testing::Values(Precision::kFloat32, Precision::kBfloat16, Precision::kBfloat16Weights)),
    [](const auto& test) {
      return std::get<0>(test.param).name + suffix(std::get<1>(test.param));
    });

}  // namespace
}  // namespace trireme::model
