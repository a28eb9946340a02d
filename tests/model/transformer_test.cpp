// Blocks of gpt, vit and llama against the formulas of their papers, written without fused
// operators.
//
// Shapes: B examples, T tokens, C width, H heads, D = C / H, V vocabulary.
// SPDX-License-Identifier: Apache-2.0
#include "built.h"

#include <gtest/gtest.h>

#include <map>

namespace trireme::model {
namespace {

constexpr std::int64_t B = 2, T = 7, C = 24, H = 6, D = 4;

/// Parameters of a layer in double, by name, different from zeros and ones.
std::map<std::string, at::Tensor> doubles(Layer& layer) {
  std::map<std::string, at::Tensor> by_name;
  at::Generator from = at::detail::createCPUGenerator(1);
  for (const Parameter& parameter : layer.parameters()) {
    const at::Tensor noise = at::empty(parameter.value.sizes(), at::kDouble).normal_(0, 0.3, from);
    parameter.value.set_data(parameter.value.detach().to(at::kDouble) + noise);
    by_name[parameter.name] = parameter.value.detach();
  }
  return by_name;
}

at::Tensor random(at::IntArrayRef sizes) {
  return at::empty(sizes, at::kDouble).normal_(0, 1, at::detail::createCPUGenerator(2));
}

at::Tensor forward(Layer& layer, const at::Tensor& x) {
  return untaped_forward(layer, {x}, context(), Precision::kFloat32).at(0);
}

void expect_close(const at::Tensor& a, const at::Tensor& b) {
  ASSERT_EQ(a.sizes(), b.sizes());
  EXPECT_TRUE(at::allclose(a, b, 1e-10, 1e-10)) << (a - b).abs().max().item<double>();
}

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double epsilon) {
  const at::Tensor centred = x - x.mean(-1, true);
  return centred / at::sqrt((centred * centred).mean(-1, true) + epsilon) * weight + bias;
}

/// [B, T, heads, D] of every token's query against every key, one head at a time.
at::Tensor naive_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           bool is_causal) {
  const std::int64_t tokens = q.size(1), share = q.size(2) / k.size(2);
  const at::Tensor later = at::ones({tokens, tokens}).triu(1).to(at::kBool);
  std::vector<at::Tensor> heads;
  for (std::int64_t h = 0; h < q.size(2); ++h) {
    at::Tensor scores = at::matmul(q.select(2, h), k.select(2, h / share).transpose(1, 2)) /
                        std::sqrt(static_cast<double>(q.size(3)));
    if (is_causal) scores = scores.masked_fill(later, -INFINITY);
    heads.push_back(at::matmul(at::softmax(scores, -1), v.select(2, h / share)));
  }
  return at::stack(heads, 2);
}

at::Tensor gelu(const at::Tensor& x, bool by_tanh) {
  if (!by_tanh) return x * 0.5 * (1 + at::erf(x / std::sqrt(2.0)));
  return 0.5 * x * (1 + at::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/// x + attention(norm(x)), then the same with the MLP: gpt's and vit's block.
at::Tensor naive_block(const at::Tensor& x, std::map<std::string, at::Tensor>& p, bool is_gpt) {
  const double epsilon = is_gpt ? 1e-5 : 1e-6;
  const at::Tensor normed =
      layer_norm(x, p["attention.norm.weight"], p["attention.norm.bias"], epsilon);
  const auto qkv =
      (at::matmul(normed, p["attention.qkv.weight"].t()) + p["attention.qkv.bias"]).chunk(3, 2);
  const auto in_heads = [&](const at::Tensor& y) {
    return y.reshape({y.size(0), y.size(1), H, D});
  };
  const at::Tensor attended =
      naive_attention(in_heads(qkv[0]), in_heads(qkv[1]), in_heads(qkv[2]), is_gpt).flatten(2);
  const at::Tensor y = x + at::matmul(attended, p["attention.projection.weight"].t()) +
                       p["attention.projection.bias"];
  const at::Tensor hidden =
      at::matmul(layer_norm(y, p["mlp.norm.weight"], p["mlp.norm.bias"], epsilon),
                 p["mlp.up.weight"].t()) +
      p["mlp.up.bias"];
  return y + at::matmul(gelu(hidden, is_gpt), p["mlp.down.weight"].t()) + p["mlp.down.bias"];
}

TEST(GptBlock, IsItsFormula) {
  const ChainModel model = make_gpt(
      {.blocks = 1, .width = C, .heads = H, .context = T, .vocabulary = 9, .grain = "block"});
  const auto block = build(model, 2);
  auto parameters = doubles(*block);
  const at::Tensor x = random({B, T, C});

  expect_close(forward(*block, x), naive_block(x, parameters, true));
}

TEST(VitBlock, IsItsFormula) {
  const ChainModel model = make_vit(
      {.image_size = 6, .patch = 3, .blocks = 1, .width = C, .heads = H, .grain = "block"});
  const auto block = build(model, 2);
  auto parameters = doubles(*block);
  const at::Tensor x = random({B, 5, C});

  expect_close(forward(*block, x), naive_block(x, parameters, false));
}

TEST(VitEmbedding, ProjectsPatchesRowByRow) {
  const ChainModel model =
      make_vit({.image_size = 6, .patch = 3, .blocks = 1, .width = C, .heads = H, .channels = 2});
  const auto embedding = build(model, 1);
  auto p = doubles(*embedding);
  const at::Tensor image = random({B, 2, 6, 6});

  std::vector<at::Tensor> tokens{p["class.weight"].expand({B, C})};
  for (std::int64_t row = 0; row < 6; row += 3) {
    for (std::int64_t column = 0; column < 6; column += 3) {
      const at::Tensor patch = image.narrow(2, row, 3).narrow(3, column, 3).flatten(1);
      tokens.push_back(at::matmul(patch, p["patch.weight"].flatten(1).t()) + p["patch.bias"]);
    }
  }
  expect_close(forward(*embedding, image), at::stack(tokens, 1) + p["position.weight"]);
}

config::LlamaSpec llama_spec() {
  return {.blocks = 1,
          .width = C,
          .heads = H,
          .kv_heads = 2,
          .hidden = 10,
          .context = T,
          .vocabulary = 9,
          .rope_base = 50,
          .grain = "block"};
}

at::Tensor rms(const at::Tensor& x, const at::Tensor& weight) {
  return x / at::sqrt((x * x).mean(-1, true) + 1e-5) * weight;
}

/// Rotary positions (Su et al. 2021) as a product of complex numbers: pair i of D / 2 is the number
/// x[i] + j x[i + D / 2], rotated by position x base^(-2i / D).
at::Tensor rotary(const at::Tensor& x_BTHD, double base) {
  std::vector<at::Tensor> tokens;
  for (std::int64_t t = 0; t < x_BTHD.size(1); ++t) {
    std::vector<at::Tensor> real, imaginary;
    for (std::int64_t i = 0; i < D / 2; ++i) {
      const double angle =
          static_cast<double>(t) * std::pow(base, -2.0 * static_cast<double>(i) / D);
      const at::Tensor number =
          at::complex(x_BTHD.select(1, t).select(2, i), x_BTHD.select(1, t).select(2, i + D / 2)) *
          c10::complex<double>(std::cos(angle), std::sin(angle));
      real.push_back(at::real(number));
      imaginary.push_back(at::imag(number));
    }
    real.insert(real.end(), imaginary.begin(), imaginary.end());
    tokens.push_back(at::stack(real, 2));
  }
  return at::stack(tokens, 1);
}

TEST(LlamaBlock, IsItsFormula) {
  const auto block = build(make_llama(llama_spec()), 2);
  auto p = doubles(*block);
  const at::Tensor x = random({B, T, C});

  const at::Tensor normed = rms(x, p["attention.norm.weight"]);
  const auto in_heads = [&](const std::string& weight, std::int64_t heads) {
    return at::matmul(normed, p["attention." + weight + ".weight"].t()).view({B, T, heads, D});
  };
  const at::Tensor attended = naive_attention(rotary(in_heads("q", H), 50),
                                              rotary(in_heads("k", 2), 50), in_heads("v", 2), true)
                                  .flatten(2);
  const at::Tensor y = x + at::matmul(attended, p["attention.projection.weight"].t());
  const at::Tensor from = rms(y, p["mlp.norm.weight"]);
  const at::Tensor gate = at::matmul(from, p["mlp.gate.weight"].t());
  const at::Tensor hidden = gate * at::sigmoid(gate) * at::matmul(from, p["mlp.up.weight"].t());

  expect_close(forward(*block, x), y + at::matmul(hidden, p["mlp.down.weight"].t()));
}

TEST(LlamaBlock, ComparesByDistance) {
  config::LlamaSpec spec = llama_spec();
  spec.grain = "fine";
  const auto qkv = build(make_llama(spec), 2);
  doubles(*qkv);
  // Equal tokens: differences come from their positions.
  const at::Tensor x = random({1, 1, C}).expand({1, T, C});
  const Values out = untaped_forward(*qkv, {x}, context(), Precision::kFloat32);
  const at::Tensor scores_TT = at::matmul(out[0].select(2, 0)[0], out[1].select(2, 0)[0].t());

  expect_close(scores_TT.narrow(0, 1, T - 1).narrow(1, 1, T - 1),
               scores_TT.narrow(0, 0, T - 1).narrow(1, 0, T - 1));
  EXPECT_FALSE(at::allclose(scores_TT.select(1, 0), scores_TT[0][0].expand({T})));
}

TEST(Llama, TiesItsHeadIfAsked) {
  config::LlamaSpec spec = llama_spec();
  Built apart(make_llama(spec));
  spec.tied_head = true;
  Built tied(make_llama(spec));

  const auto is_tied = [](Built& chain) {
    const Parameter token = chain.layer(1).parameters()[0], output = chain.layer(3).parameters()[1];
    EXPECT_EQ(token.tie, output.tie);
    return !token.tie.empty() && at::equal(token.value, output.value);
  };
  EXPECT_FALSE(is_tied(apart));
  EXPECT_TRUE(is_tied(tied));
  EXPECT_FALSE(
      at::equal(apart.layer(1).parameters()[0].value, apart.layer(3).parameters()[1].value));
}

TEST(Transformers, StartResidualBranchesSmaller) {
  const auto block =
      build(make_llama({.blocks = 8, .width = 256, .heads = 4, .grain = "block"}), 2);
  int ends = 0, others = 0;
  for (const Parameter& parameter : block->parameters()) {
    if (parameter.value.dim() != 2) continue;
    const bool ends_branch =
        parameter.name.ends_with("projection.weight") || parameter.name.ends_with("down.weight");
    const double deviation = parameter.value.std().item<double>();
    EXPECT_NEAR(deviation, ends_branch ? 0.02 / 4 : 0.02, 0.02 * deviation) << parameter.name;
    ++(ends_branch ? ends : others);
  }
  EXPECT_EQ(ends, 2);    // of attention and of the MLP
  EXPECT_EQ(others, 5);  // q, k, v, gate and up
}

TEST(Transformers, SeeNoLaterToken) {
  Built gpt(make_gpt({.blocks = 2, .width = C, .heads = H, .context = T, .vocabulary = 9}));
  Built llama(make_llama({.blocks = 2, .width = C, .heads = H, .context = T, .vocabulary = 9}));
  for (Built* chain : {&gpt, &llama}) {
    Examples examples(chain->model, B);
    const std::size_t last = chain->layers.size() - 1;
    const at::Tensor before = outputs(*chain, examples)[last][0];
    examples.input.select(1, 4).add_(1).remainder_(9);
    const at::Tensor after = outputs(*chain, examples)[last][0];

    EXPECT_TRUE(at::equal(before.narrow(1, 0, 4), after.narrow(1, 0, 4)));
    for (std::int64_t t = 4; t < T; ++t)
      EXPECT_FALSE(at::equal(before.select(1, t), after.select(1, t))) << t;
  }
}

}  // namespace
}  // namespace trireme::model
