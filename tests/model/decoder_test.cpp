// Parts that a llama may have, each against the formula of the paper or program that it is from,
// written with plain operators, values and gradients.
//
// Shapes: B examples, T tokens, C width, H heads of queries, G of keys and values, D values of a
// head, V vocabulary.
// SPDX-License-Identifier: Apache-2.0
#include "architectures/rotary.h"
#include "built.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <ostream>

namespace trireme::model {
namespace {

using config::LlamaSpec;
using Parameters = std::map<std::string, at::Tensor>;

constexpr std::int64_t B = 2, T = 7, C = 24, H = 6, G = 2, V = 9;

/// Gives the parameters of a layer values in double that are neither zeros nor ones.
Parameters doubles(Layer& layer) {
  Parameters by_name;
  at::Generator from = at::detail::createCPUGenerator(1);
  for (const Parameter& parameter : layer.parameters()) {
    const at::Tensor noise = at::empty(parameter.value.sizes(), at::kDouble).normal_(0, 0.3, from);
    parameter.value.set_data(parameter.value.detach().to(at::kDouble) + noise);
    at::Tensor(parameter.value).mutable_grad() = at::zeros_like(parameter.value.detach());
    by_name[parameter.name] = parameter.value.detach().clone().requires_grad_(true);
  }
  return by_name;
}

at::Tensor random(at::IntArrayRef sizes) {
  return at::empty(sizes, at::kDouble).normal_(0, 1, at::detail::createCPUGenerator(2));
}

void expect_close(const at::Tensor& a, const at::Tensor& b, const std::string& what) {
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  EXPECT_TRUE(at::allclose(a, b, 1e-9, 1e-10))
      << what << ": " << (a - b).abs().max().item<double>();
}

at::Tensor rms(const at::Tensor& x, const at::Tensor& weight, const LlamaSpec& spec) {
  const at::Tensor unit = x / at::sqrt((x * x).mean(-1, true) + spec.norm_epsilon);
  return unit * (spec.zero_centered_norms ? weight + 1 : weight);
}

at::Tensor activated(const at::Tensor& x, const std::string& by) {
  if (by == "silu") return x * at::sigmoid(x);
  if (by == "gelu") return x * 0.5 * (1 + at::erf(x / std::sqrt(2.0)));
  return 0.5 * x * (1 + at::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/// Pair i of R / 2 is the number x[i] + j x[i + R / 2], rotated by position x base^(-2i / R).
at::Tensor rotary(const at::Tensor& x_BTHD, const LlamaSpec& spec) {
  if (!spec.is_rotated(0)) return x_BTHD;
  const double base = spec.window ? spec.window_rope_base.value_or(spec.rope_base) : spec.rope_base;
  const auto R = static_cast<std::int64_t>(std::floor(spec.head_size() * spec.rope_fraction));
  std::vector<at::Tensor> tokens;
  for (std::int64_t t = 0; t < T; ++t) {
    const at::Tensor x_BHD = x_BTHD.select(1, t);
    std::vector<at::Tensor> first, second;
    for (std::int64_t i = 0; i < R / 2; ++i) {
      const double angle = static_cast<double>(t) *
                           std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(R));
      const at::Tensor a = x_BHD.select(2, i), b = x_BHD.select(2, i + R / 2);
      first.push_back(std::cos(angle) * a - std::sin(angle) * b);
      second.push_back(std::sin(angle) * a + std::cos(angle) * b);
    }
    first.insert(first.end(), second.begin(), second.end());
    for (std::int64_t i = R; i < x_BHD.size(2); ++i) first.push_back(x_BHD.select(2, i));
    tokens.push_back(at::stack(first, 2));
  }
  return at::stack(tokens, 1);
}

/// Token by token and head by head.
at::Tensor attended(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const LlamaSpec& spec) {
  const std::int64_t window = spec.window ? *spec.window : T;
  const double scale =
      spec.attention_scale ? *spec.attention_scale : std::pow(static_cast<double>(q.size(3)), -0.5);
  std::vector<at::Tensor> heads;
  for (std::int64_t h = 0; h < H; ++h) {
    std::vector<at::Tensor> tokens;
    for (std::int64_t t = 0; t < T; ++t) {
      const std::int64_t first = std::max<std::int64_t>(0, t + 1 - window), g = h / (H / G);
      const at::Tensor keys = k.select(2, g).narrow(1, first, t + 1 - first);
      at::Tensor scores = (keys * q.select(2, h).narrow(1, t, 1)).sum(-1) * scale;
      if (spec.attention_cap > 0)
        scores = spec.attention_cap * at::tanh(scores / spec.attention_cap);
      const at::Tensor weights = at::exp(scores) / at::exp(scores).sum(-1, true);
      tokens.push_back(
          (weights.unsqueeze(2) * v.select(2, g).narrow(1, first, t + 1 - first)).sum(1));
    }
    heads.push_back(at::stack(tokens, 1));
  }
  return at::cat(heads, 2);
}

class Naive {
 public:
  Naive(const LlamaSpec& spec, Parameters& parameters) : spec_(spec), p_(parameters) {}

  at::Tensor block(const at::Tensor& x) {
    const at::Tensor y =
        x + spec_.residual_scale *
                branch("attention", x, [&](const at::Tensor& from) { return attention(from); });
    return y + spec_.residual_scale *
                   branch("mlp", y, [&](const at::Tensor& from) { return mlp(from); });
  }

 private:
  at::Tensor branch(const std::string& place, const at::Tensor& x,
                    const std::function<at::Tensor(const at::Tensor&)>& inside) {
    const at::Tensor from =
        spec_.norms == "after" ? x : rms(x, p_.at(place + ".norm.weight"), spec_);
    const at::Tensor y = inside(from);
    return spec_.norms == "before" ? y : rms(y, p_.at(place + ".after_norm.weight"), spec_);
  }

  /// Rows begin..end of a linear layer.
  at::Tensor linear(const std::string& name, const at::Tensor& x, std::int64_t begin = 0,
                    std::int64_t end = -1) {
    const at::Tensor weight = p_.at(name + ".weight");
    if (end < 0) end = weight.size(0);
    const at::Tensor y = at::matmul(x, weight.slice(0, begin, end).t());
    const auto bias = p_.find(name + ".bias");
    return bias == p_.end() ? y : y + bias->second.slice(0, begin, end);
  }

  at::Tensor attention(const at::Tensor& x) {
    const std::int64_t D = spec_.head_size(), q = H * D, kv = G * D;
    const bool is_fused = spec_.fused_linears;
    const at::Tensor queries =
        is_fused ? linear("attention.qkv", x, 0, q) : linear("attention.q", x);
    const at::Tensor keys =
        is_fused ? linear("attention.qkv", x, q, q + kv) : linear("attention.k", x);
    const at::Tensor values =
        is_fused ? linear("attention.qkv", x, q + kv, q + 2 * kv) : linear("attention.v", x);
    const auto in_heads = [&](const at::Tensor& y, std::int64_t heads, const std::string& norm) {
      at::Tensor normed = y;
      if (spec_.qk_norm == "all") normed = rms(y, p_.at("attention." + norm + ".weight"), spec_);
      normed = normed.reshape({B, T, heads, D});
      if (spec_.qk_norm == "head")
        normed = rms(normed, p_.at("attention." + norm + ".weight"), spec_);
      return rotary(normed, spec_);
    };
    return linear("attention.projection",
                  attended(in_heads(queries, H, "q_norm"), in_heads(keys, G, "k_norm"),
                           values.reshape({B, T, G, D}), spec_));
  }

  at::Tensor mlp(const at::Tensor& x) {
    const std::int64_t hidden = spec_.hidden_width();
    const at::Tensor gate =
        spec_.fused_linears ? linear("mlp.gate_up", x, 0, hidden) : linear("mlp.gate", x);
    const at::Tensor up =
        spec_.fused_linears ? linear("mlp.gate_up", x, hidden, 2 * hidden) : linear("mlp.up", x);
    return linear("mlp.down", activated(gate, spec_.activation) * up);
  }

  const LlamaSpec& spec_;
  Parameters& p_;
};

LlamaSpec plain() {
  LlamaSpec spec{.blocks = 1, .width = C, .heads = H, .kv_heads = G, .hidden = 10};
  spec.context = T;
  spec.vocabulary = V;
  spec.rope_base = 50;
  spec.grain = "block";
  return spec;
}

struct Case {
  std::string name;
  std::function<void(LlamaSpec&)> change;
};

void PrintTo(const Case& each, std::ostream* out) {
  *out << each.name;
}

std::vector<Case> cases() {
  return {{"plain", [](LlamaSpec&) {}},
          {"head_width", [](LlamaSpec& spec) { spec.head_width = 6; }},
          {"biases",
           [](LlamaSpec& spec) { spec.qkv_bias = spec.projection_bias = spec.mlp_bias = true; }},
          {"norms_after", [](LlamaSpec& spec) { spec.norms = "after"; }},
          {"norms_both", [](LlamaSpec& spec) { spec.norms = "both"; }},
          {"qk_norm_of_heads", [](LlamaSpec& spec) { spec.qk_norm = "head"; }},
          {"qk_norm_of_all", [](LlamaSpec& spec) { spec.qk_norm = "all"; }},
          {"zero_centered_norms",
           [](LlamaSpec& spec) {
             spec.zero_centered_norms = true;
             spec.qk_norm = "head";
             spec.norms = "both";
           }},
          {"fused_linears",
           [](LlamaSpec& spec) {
             spec.fused_linears = true;
             spec.qkv_bias = spec.mlp_bias = true;
           }},
          {"gelu", [](LlamaSpec& spec) { spec.activation = "gelu"; }},
          {"gelu_tanh", [](LlamaSpec& spec) { spec.activation = "gelu_tanh"; }},
          {"residual_scale", [](LlamaSpec& spec) { spec.residual_scale = 0.3; }},
          {"attention_scale", [](LlamaSpec& spec) { spec.attention_scale = 0.9; }},
          {"attention_cap", [](LlamaSpec& spec) { spec.attention_cap = 0.7; }},
          {"window", [](LlamaSpec& spec) { spec.window = 3; }},
          {"window_of_one", [](LlamaSpec& spec) { spec.window = 1; }},
          {"window_with_cap",
           [](LlamaSpec& spec) {
             spec.window = 3;
             spec.attention_cap = 0.7;
             spec.attention_scale = 0.9;
           }},
          {"window_rope_base",
           [](LlamaSpec& spec) {
             spec.window = 4;
             spec.window_rope_base = 3;
           }},
          {"rope_fraction",
           [](LlamaSpec& spec) {
             spec.head_width = 6;
             spec.rope_fraction = 0.7;
           }},
          {"unrotated", [](LlamaSpec& spec) { spec.unrotated_blocks = {0}; }}};
}

class Decoder : public testing::TestWithParam<Case> {};

TEST_P(Decoder, BlockIsItsFormulaWithItsGradients) {
  LlamaSpec spec = plain();
  GetParam().change(spec);
  const auto block = build(make_llama(spec), 2);
  Parameters parameters = doubles(*block);
  const at::Tensor x = random({B, T, C}), dy = random({B, T, C}).flip(0);

  Tape tape = taped_forward(*block, {x}, context(), Precision::kFloat32, InputGradient::kNeeded);
  const at::Tensor y = tape.outputs.at(0).clone();
  const at::Tensor dx = backward(std::move(tape), {dy}).at(0);

  const at::Tensor there = x.clone().requires_grad_(true);
  const at::Tensor expected = Naive(spec, parameters).block(there);
  expected.backward(dy);
  expect_close(y, expected.detach(), "output");
  expect_close(dx, there.grad(), "gradient of the input");
  for (const Parameter& parameter : block->parameters())
    expect_close(parameter.value.grad(), parameters.at(parameter.name).grad(), parameter.name);
}

INSTANTIATE_TEST_SUITE_P(Parts, Decoder, testing::ValuesIn(cases()),
                         [](const auto& each) { return each.param.name; });

TEST(DecoderEmbedding, IsScaled) {
  LlamaSpec spec = plain();
  const auto without = build(make_llama(spec), 1);
  spec.embedding_scale = 4.5;
  const auto with = build(make_llama(spec), 1);
  const at::Tensor tokens = at::arange(0, V).unsqueeze(0);
  const auto of = [&](Layer& layer) {
    return untaped_forward(layer, {tokens}, context(), Precision::kFloat32).at(0);
  };
  EXPECT_TRUE(at::equal(of(*with), of(*without) * 4.5));
}

/// The head's loss in double, with the mean over targets that are not masked.
TEST(DecoderHead, DividesAndCapsItsLogits) {
  for (const int chunks : {1, 3}) {
    for (const bool is_masked : {false, true}) {
      LlamaSpec spec = plain();
      spec.logits_divisor = 1.7;
      spec.logits_cap = 0.8;
      spec.loss_chunks = chunks;
      const ChainModel model = make_llama(spec);
      const auto head = build(model, model.length());
      Parameters parameters = doubles(*head);
      const at::Tensor x = random({B, T, C});
      at::Tensor target = at::arange(0, B * T).remainder(V).reshape({B, T});
      if (is_masked) target = target.masked_fill(target == 2, kMasked);
      const double counted = (target != kMasked).sum().item<double>();
      Values targets{target};
      if (is_masked) targets.push_back(at::full({}, 1 / counted, at::kFloat));

      Tape tape = taped_forward(*head, {x}, context(true, targets), Precision::kFloat32,
                                InputGradient::kNeeded);
      const at::Tensor loss = tape.outputs.at(0).clone();
      const at::Tensor dx = backward(std::move(tape), {at::ones_like(loss)}).at(0);

      const at::Tensor there = x.clone().requires_grad_(true);
      const at::Tensor products = at::matmul(rms(there, parameters.at("norm.weight"), spec),
                                             parameters.at("output.weight").t());
      const at::Tensor logits = 0.8 * at::tanh(products / 1.7 / 0.8);
      at::Tensor sum = at::zeros({}, at::kDouble);
      for (std::int64_t b = 0; b < B; ++b)
        for (std::int64_t t = 0; t < T; ++t)
          if (const auto word = target[b][t].item<std::int64_t>(); word != kMasked)
            sum = sum + at::log(at::exp(logits[b][t]).sum()) - logits[b][t][word];
      const at::Tensor expected = sum / counted;
      expected.backward();
      // A share of the loss is in float32.
      EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-6);
      EXPECT_LT((dx - there.grad()).abs().max().item<double>(), 1e-7);
      for (const Parameter& parameter : head->parameters())
        EXPECT_LT((parameter.value.grad() - parameters.at(parameter.name).grad())
                      .abs()
                      .max()
                      .item<double>(),
                  1e-6)
            << parameter.name;
      const at::Tensor shown =
          untaped_forward(*head, {x}, context(false), Precision::kFloat32).at(0);
      expect_close(shown, logits.detach(), "logits");
    }
  }
}

// ROPE_INIT_FUNCTIONS["yarn"] of transformers 5.24 for 16 values of a head, base 1000, factor 4, 64
// positions, beta_fast 8, beta_slow 0.5.
TEST(Yarn, TurnsAsInTransformers) {
  const Rotation rotation{.values = 16,
                          .base = 1000,
                          .scaling = "yarn",
                          .factor = 4,
                          .low_turns = 0.5,
                          .high_turns = 8,
                          .original_context = 64,
                          .length = 1.138629436111989};
  const Angles found = angles(1, 1, rotation, at::kDouble);
  const at::Tensor speeds = at::tensor({1.0000e+00, 3.4263e-01, 1.1114e-01, 3.2808e-02, 7.9057e-03,
                                        3.3338e-03, 1.4059e-03, 5.9284e-04},
                                       at::kDouble);
  const at::Tensor shown = at::atan2(found.sin_T1I, found.cos_T1I).flatten();
  EXPECT_TRUE(at::allclose(shown, speeds, 1e-4)) << shown;
  const at::Tensor lengths = at::hypot(found.sin_T1I, found.cos_T1I);
  EXPECT_TRUE(at::allclose(lengths, at::full_like(lengths, 1.138629436111989), 1e-12));
}

TEST(DecoderChain, HasKindsOfBlocksThatDiffer) {
  LlamaSpec spec = plain();
  spec.blocks = 4;
  spec.window = 3;
  spec.window_blocks = {1, 3};
  spec.unrotated_blocks = {3};
  spec.grain = "half_block";
  const ChainModel model = make_llama(spec);
  std::vector<std::string> kinds;
  for (std::size_t i = 1; i + 1 < model.layers.size(); i += 2)
    kinds.push_back(model.layers[i].kind);
  EXPECT_EQ(kinds, (std::vector<std::string>{"attention", "attention.windowed", "attention",
                                             "attention.windowed.unrotated"}));
  EXPECT_EQ(model.layers[2].kind, "mlp");
  EXPECT_EQ(model.layers[1].window, std::nullopt);
  EXPECT_EQ(model.layers[3].window, 3);
}

}  // namespace
}  // namespace trireme::model
