// GPT-2 (Radford et al. 2019): pre-norm blocks, learned positions, tanh GELU, causal fused
// attention.
//
// Shapes: B examples of the micro-batch, T tokens, C width, H heads, D = C / H, V vocabulary.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/text.h"
#include "trireme/model/chain.h"
#include "trireme/model/functional.h"

#include <ATen/ATen.h>

#include <cmath>

namespace trireme::model {
namespace {

constexpr double kDeviation = 0.02;
constexpr double kNormEpsilon = 1e-5;
constexpr const char* kTie = "token_embedding";

/// Scale and shift of a layer norm over C.
struct Norm {
  at::Tensor weight, bias;

  at::Tensor operator()(const at::Tensor& x) const {
    return at::layer_norm(x, {weight.size(0)}, weight, bias, kNormEpsilon);
  }
};

struct Linear {
  at::Tensor weight, bias;

  at::Tensor operator()(const at::Tensor& x) const { return at::linear(x, weight, bias); }
};

/// What the layers of a GPT have in common: how their parts are made.
class GptLayer : public Layer {
 protected:
  explicit GptLayer(const config::GptSpec& spec) : spec_(spec) {}

  Norm add_norm(const std::string& name) {
    return {add_parameter(name + ".weight", at::ones({spec_.width})),
            add_parameter(name + ".bias", at::zeros({spec_.width}))};
  }
  Linear add_linear(const std::string& name, std::int64_t in, std::int64_t out, double deviation,
                    const at::Generator& from) {
    return {add_parameter(name + ".weight", normal({out, in}, deviation, from)),
            add_parameter(name + ".bias", at::zeros({out}))};
  }
  /// The projections that end a residual branch start smaller, so that the sum over 2 x blocks
  /// branches keeps its variance.
  double residual_deviation() const { return kDeviation / std::sqrt(2.0 * spec_.blocks); }

  const config::GptSpec spec_;
};

/// Tokens int64 [B, T] to [B, T, C].
class Embedding final : public GptLayer {
 public:
  Embedding(const config::GptSpec& spec, const Seeds& seeds) : GptLayer(spec) {
    token_ = add_parameter("token.weight",
                           normal({spec.vocabulary, spec.width}, kDeviation, seeds.of_tie(kTie)),
                           spec.tied_head ? kTie : "");
    position_ = add_parameter("position.weight",
                              normal({spec.context, spec.width}, kDeviation, seeds.of_layer()));
  }

  Values forward(const Values& input, const Context& context) override {
    const at::Tensor x_BTC =
        at::embedding(token_, input[0]) + position_.narrow(0, 0, input[0].size(1));
    return {dropout(x_BTC, spec_.dropout, context)};
  }

 private:
  at::Tensor token_, position_;
};

/// x + dropout(projection(attention(norm(x)))), [B, T, C] to [B, T, C].
class Attention final : public GptLayer {
 public:
  Attention(const config::GptSpec& spec, const Seeds& seeds) : GptLayer(spec) {
    const at::Generator from = seeds.of_layer();
    norm_ = add_norm("norm");
    qkv_ = add_linear("qkv", spec.width, 3 * std::int64_t{spec.width}, kDeviation, from);
    projection_ = add_linear("projection", spec.width, spec.width, residual_deviation(), from);
  }

  Values forward(const Values& input, const Context& context) override {
    const at::Tensor& x_BTC = input[0];
    const std::int64_t B = x_BTC.size(0), T = x_BTC.size(1), C = x_BTC.size(2), H = spec_.heads;
    const auto qkv = qkv_(norm_(x_BTC))
                         .view({B, T, 3, H, C / H})
                         .permute({2, 0, 3, 1, 4})
                         .unbind(0);  // each BHTD
    const at::Tensor attended_BHTD = at::scaled_dot_product_attention(
        qkv[0], qkv[1], qkv[2], {}, /*dropout_p=*/0.0, /*is_causal=*/true);
    const at::Tensor attended_BTC = attended_BHTD.transpose(1, 2).reshape({B, T, C});
    return {x_BTC + dropout(projection_(attended_BTC), spec_.dropout, context)};
  }

 private:
  Norm norm_;
  Linear qkv_, projection_;
};

/// x + dropout(down(gelu(up(norm(x))))), [B, T, C] to [B, T, C].
class FeedForward final : public GptLayer {
 public:
  FeedForward(const config::GptSpec& spec, const Seeds& seeds) : GptLayer(spec) {
    const at::Generator from = seeds.of_layer();
    norm_ = add_norm("norm");
    up_ = add_linear("up", spec.width, 4 * std::int64_t{spec.width}, kDeviation, from);
    down_ =
        add_linear("down", 4 * std::int64_t{spec.width}, spec.width, residual_deviation(), from);
  }

  Values forward(const Values& input, const Context& context) override {
    const at::Tensor hidden = at::gelu(up_(norm_(input[0])), "tanh");
    return {input[0] + dropout(down_(hidden), spec_.dropout, context)};
  }

 private:
  Norm norm_;
  Linear up_, down_;
};

/// Mean cross-entropy of the next token, [B, T, C] to one value.
class Head final : public GptLayer {
 public:
  Head(const config::GptSpec& spec, const Seeds& seeds) : GptLayer(spec) {
    norm_ = add_norm("norm");
    const at::Generator from = spec.tied_head ? seeds.of_tie(kTie) : seeds.of_layer();
    weight_ =
        add_parameter("output.weight", normal({spec.vocabulary, spec.width}, kDeviation, from),
                      spec.tied_head ? kTie : "");
  }

  Values forward(const Values& input, const Context& context) override {
    const at::Tensor logits_BTV = at::linear(norm_(input[0]), weight_);
    return {at::cross_entropy_loss(logits_BTV.view({-1, spec_.vocabulary}),
                                   context.target.at(0).reshape({-1}))};
  }

 private:
  Norm norm_;
  at::Tensor weight_;
};

template <class L>
LayerRecipe recipe(const config::GptSpec& spec, std::string name, std::string kind, double work) {
  return {.name = std::move(name),
          .work = work,
          .build = [spec](const Seeds& seeds) -> std::unique_ptr<Layer> {
            return std::make_unique<L>(spec, seeds);
          },
          .kind = std::move(kind)};
}

}  // namespace

ChainModel make_gpt(const config::GptSpec& spec) {
  const double T = spec.context, C = spec.width, V = spec.vocabulary;
  ChainModel model{.name = concat("gpt-", spec.blocks, "x", spec.width),
                   .layers = {},
                   .input = InputKind::kTokens,
                   .input_size = spec.context,
                   .classes = spec.vocabulary};
  model.layers.push_back(recipe<Embedding>(spec, "embedding", "embedding", 8 * T * C));
  for (int block = 0; block < spec.blocks; ++block) {
    model.layers.push_back(recipe<Attention>(spec, concat("block", block, ".attention"),
                                             "attention", 4 * T * C * C + T * T * C));
    model.layers.push_back(
        recipe<FeedForward>(spec, concat("block", block, ".mlp"), "mlp", 8 * T * C * C));
  }
  model.layers.push_back(recipe<Head>(spec, "head", "head", T * C * V));
  return model;
}

}  // namespace trireme::model
