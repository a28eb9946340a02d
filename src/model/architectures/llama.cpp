// A decoder whose parts can be chosen (config::LlamaSpec). With their defaults it is a llama
// (Touvron et al. 2023): RMS norm, rotary positions (Su et al. 2021), grouped-query attention
// (Ainslie et al. 2023), SwiGLU (Shazeer 2020), no biases.
//
// Shapes: B examples of the micro-batch, T tokens, C width, H heads of queries, G of keys and
// values, D values of a head, V vocabulary. Between parts, x is the residual and the last member.
// SPDX-License-Identifier: Apache-2.0
#include "architectures/attention.h"
#include "architectures/document_attention.h"
#include "architectures/language.h"
#include "architectures/rotary.h"
#include "architectures/transformer.h"
#include "run/trained.h"

#include "trireme/core/text.h"
#include "trireme/model/functional.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace trireme::model {
namespace {

using config::LlamaSpec;

/// x to {q, k, v, x} with q [B, T, H, D] and k [B, T, G, D], normed where asked for and rotated by
/// their positions. The tape: norm(x), a number per token and the angles, and what norms of q and k
/// save; the rotation does not save its input.
Part qkv(const PartBuilder& build, const LlamaSpec& spec, int block);
/// {q, k, v, x} to {attended, x}. The tape: what causal_attention saves; keys and values are not
/// repeated for the queries that share them.
Part core(const LlamaSpec& spec, int block);
/// {attended, x} to x + projection(attended). The tape: what a norm after it saves.
Part projection(const PartBuilder& build, const LlamaSpec& spec);
/// x to {gate(norm(x)), up(norm(x)), x}, the first two as one where they are fused. The tape:
/// norm(x) and a number per token.
Part up(const PartBuilder& build, const LlamaSpec& spec);
/// {g, u, x} to x + down(f(g) u). The tape: f(g) u, and what a norm after it saves.
Part down(const PartBuilder& build, const LlamaSpec& spec);

/// The parts of block number `block`.
std::vector<PartRecipe> parts_of(const LlamaSpec& spec, int block);

Norm add_norm(const PartBuilder& build, const LlamaSpec& spec, const std::string& name,
              std::int64_t width) {
  return spec.zero_centered_norms
             ? add_zero_centered_rms_norm(build, name, width, spec.norm_epsilon)
             : add_rms_norm(build, name, width, spec.norm_epsilon);
}

/// As in GPT-2: small initial weights at the end of branches keep the residual's variance.
double residual_deviation(const LlamaSpec& spec) {
  return kDeviation / std::sqrt(2.0 * spec.blocks);
}

/// Tokens int64 [B, T] to [B, T, C].
Part embedding(const PartBuilder& build, const LlamaSpec& spec) {
  const at::Tensor token = add_token_embedding(build, spec.vocabulary, spec.width, spec.tied_head);
  return [token, scale = spec.embedding_scale](Values input, const Context&) -> Values {
    const at::Tensor x_BTC = embed(token, input[0]);
    return {scale == 1 ? x_BTC : x_BTC * scale};
  };
}

/// [B, T, C] to the mean cross-entropy of the next token, or without a target to its logits.
Part head(const PartBuilder& build, const LlamaSpec& spec) {
  const Norm norm = add_norm(build, spec, "norm", spec.width);
  const at::Tensor weight = add_output_weight(build, spec.vocabulary, spec.width, spec.tied_head);
  const Logits logits{.divisor = spec.logits_divisor, .cap = spec.logits_cap};
  return [norm, weight, logits, chunks = spec.loss_chunks](Values input,
                                                           const Surroundings& around) -> Values {
    const at::Tensor x_BTC = tokens_for_head(input[0], around);
    return {next_token_loss(norm(x_BTC, around), weight, around, chunks, logits)};
  };
}

}  // namespace

ChainModel make_llama(const LlamaSpec& spec) {
  const double T = spec.context, C = spec.width, V = spec.vocabulary;
  ChainModel model{.name = concat("llama-", spec.blocks, "x", spec.width),
                   .layers = {},
                   .input = InputKind::kTokens,
                   .input_size = spec.context,
                   .classes = spec.vocabulary,
                   .takes_masked_targets = true,
                   .isolates_documents = true,
                   .gives_logits = true};
  model.layers.push_back(
      layer_of("embedding", "embedding", 4 * T * C,
               [spec](const PartBuilder& build) { return embedding(build, spec); }));
  for (int block = 0; block < spec.blocks; ++block)
    add_block(model, concat("block", block), parts_of(spec, block), spec.grain);
  model.layers.push_back(layer_of("head", "head", T * C * V,
                                  [spec](const PartBuilder& build) { return head(build, spec); }));
  train_as_asked(model, spec);
  return model;
}

namespace {

std::vector<PartRecipe> parts_of(const LlamaSpec& spec, int block) {
  const double T = spec.context, C = spec.width;
  const double queries = static_cast<double>(spec.heads) * spec.head_size();
  const double keys = static_cast<double>(spec.key_value_heads()) * spec.head_size();
  const auto hidden = static_cast<double>(spec.hidden_width());
  const std::optional<int> window = spec.window_of(block);
  const std::string variant =
      concat(window ? ".windowed" : "", spec.is_rotated(block) ? "" : ".unrotated");
  return {{.place = "attention",
           .name = "qkv",
           .work = T * C * (queries + 2 * keys),
           .build = [spec, block](const PartBuilder& build) { return qkv(build, spec, block); },
           .variant = variant},
          {.place = "attention",
           .name = "core",
           .work = T * std::min(T, window ? *window : T) * queries,
           .build = [spec, block](const PartBuilder&) { return core(spec, block); },
           .variant = variant,
           .window = window},
          {.place = "attention",
           .name = "projection",
           .work = T * queries * C,
           .build = [spec](const PartBuilder& build) { return projection(build, spec); }},
          {.place = "mlp",
           .name = "up",
           .work = 2 * T * C * hidden,
           .build = [spec](const PartBuilder& build) { return up(build, spec); }},
          {.place = "mlp",
           .name = "down",
           .work = T * C * hidden,
           .build = [spec](const PartBuilder& build) { return down(build, spec); }}};
}

/// Adds `name` [out, in], with a bias where it `has_bias`.
Linear add(const PartBuilder& build, const LlamaSpec& spec, const std::string& name,
           std::int64_t in, std::int64_t out, bool has_bias, double deviation = kDeviation) {
  return has_bias ? add_linear(build, name, in, out, deviation, lora_of(spec))
                  : add_linear_without_bias(build, name, in, out, deviation, lora_of(spec));
}

/// The begin of a residual branch: a norm, if there is one before it, and linear layers.
struct Begin {
  std::optional<Norm> norm;
  std::vector<Linear> linears;

  /// Output of each linear layer applied to the norm of x, then x for its other uses.
  Values operator()(const at::Tensor& x, const Context& context) const {
    if (norm) {
      std::vector<const Linear*> all;
      for (const Linear& linear : linears) all.push_back(&linear);
      return norm->into(all, x, context);
    }
    Values results;
    for (const Linear& linear : linears) results.push_back(linear(x, context));
    results.push_back(x);
    return results;
  }
};

std::optional<Norm> norm_before(const PartBuilder& build, const LlamaSpec& spec) {
  if (spec.norms == "after") return std::nullopt;
  return add_norm(build, spec, "norm", spec.width);
}

/// The end of a residual branch: a linear layer, a norm, if there is one after it, and the sum.
struct End {
  Linear linear;
  std::optional<Norm> norm;
  double scale;

  at::Tensor operator()(const at::Tensor& x, const at::Tensor& residual,
                        const Context& context) const {
    at::Tensor y = linear(x, context);
    if (norm) y = (*norm)(y, context);
    return residual.add(y, scale);
  }
};

End add_end(const PartBuilder& build, const LlamaSpec& spec, const std::string& name,
            std::int64_t in, bool has_bias) {
  End end{.linear = add(build, spec, name, in, spec.width, has_bias, residual_deviation(spec)),
          .norm = std::nullopt,
          .scale = spec.residual_scale};
  if (spec.norms != "before") end.norm = add_norm(build, spec, "after_norm", spec.width);
  return end;
}

/// A norm of queries or keys: nothing, of each head, or of all together.
struct HeadNorm {
  std::optional<Norm> norm;
  bool is_of_each = false;

  at::Tensor operator()(const at::Tensor& x_BTC, std::int64_t heads, const Context& context) const {
    if (!norm) return x_BTC;
    if (!is_of_each) return (*norm)(x_BTC, context);
    return (*norm)(x_BTC.unflatten(2, at::IntArrayRef{heads, -1}), context).flatten(2);
  }
};

HeadNorm add_head_norm(const PartBuilder& build, const LlamaSpec& spec, const std::string& name,
                       std::int64_t heads) {
  if (spec.qk_norm == "none") return {};
  const bool is_of_each = spec.qk_norm == "head";
  return {.norm = add_norm(build, spec, name, (is_of_each ? 1 : heads) * spec.head_size()),
          .is_of_each = is_of_each};
}

/// The angles of the tokens of x, nothing in a block without rotary positions. They are at least
/// float32; the rotated values keep their type.
std::optional<Angles> angles_for(const at::Tensor& x_BTC, const LlamaSpec& spec, int block,
                                 at::ScalarType of_weights, const Surroundings& around) {
  if (!spec.is_rotated(block)) return std::nullopt;
  const at::ScalarType type = of_weights == at::kBFloat16 ? at::kFloat : of_weights;
  const std::int64_t first = around.past == nullptr ? 0 : around.past->tokens();
  Angles of = angles(first, x_BTC.size(1), rotation_of(spec, block), x_BTC.options().dtype(type));
  const std::vector<std::int64_t>& documents = around.context.documents;
  if (documents.empty()) return of;
  return Angles{.cos_T1I = by_position(of.cos_T1I, documents),
                .sin_T1I = by_position(of.sin_T1I, documents)};
}

Part qkv(const PartBuilder& build, const LlamaSpec& spec, int block) {
  const std::int64_t C = spec.width, D = spec.head_size(), H = spec.heads;
  const std::int64_t G = spec.key_value_heads();
  Begin begin{.norm = norm_before(build, spec), .linears = {}};
  const auto linear = [&](const char* name, std::int64_t heads) {
    begin.linears.push_back(add(build, spec, name, C, heads * D, spec.qkv_bias));
  };
  if (spec.fused_linears) {
    linear("qkv", H + 2 * G);
  } else {
    linear("q", H);
    linear("k", G);
    linear("v", G);
  }
  const HeadNorm q_norm = add_head_norm(build, spec, "q_norm", H);
  const HeadNorm k_norm = add_head_norm(build, spec, "k_norm", G);
  return [begin, q_norm, k_norm, spec, block, H, G, D](Values input,
                                                       const Surroundings& around) -> Values {
    Values qkvx = begin(take(input, 0), around);
    const at::Tensor x_BTC = std::move(qkvx.back());
    qkvx.pop_back();
    if (spec.fused_linears) qkvx = take(qkvx, 0).split_with_sizes({H * D, G * D, G * D}, 2);
    const auto by =
        angles_for(x_BTC, spec, block, begin.linears.front().weight.scalar_type(), around);
    const auto in_heads = [&](at::Tensor x, const HeadNorm& norm, std::int64_t heads) {
      x = norm(x, heads, around);
      return by ? turned(x, heads, *by) : x.unflatten(2, at::IntArrayRef{heads, D});
    };
    return {in_heads(take(qkvx, 0), q_norm, H), in_heads(take(qkvx, 1), k_norm, G), take(qkvx, 2),
            x_BTC};
  };
}

Part core(const LlamaSpec& spec, int block) {
  const Scores scores{
      .scale = spec.attention_scale, .cap = spec.attention_cap, .window = spec.window_of(block)};
  return [scores, G = std::int64_t{spec.key_value_heads()}](Values input,
                                                            const Surroundings& around) -> Values {
    const at::Tensor q_BTHD = take(input, 0), k_BTGD = take(input, 1);
    const at::Tensor v_BTGD = take(input, 2).unflatten(2, at::IntArrayRef{G, q_BTHD.size(3)});
    return {causal_attention(q_BTHD, k_BTGD, v_BTGD, around, scores), take(input, 3)};
  };
}

Part projection(const PartBuilder& build, const LlamaSpec& spec) {
  const std::int64_t queries = std::int64_t{spec.heads} * spec.head_size();
  const End end = add_end(build, spec, "projection", queries, spec.projection_bias);
  return [end](Values input, const Context& context) -> Values {
    const at::Tensor x_BTC = take(input, 1);
    return {end(take(input, 0), x_BTC, context)};
  };
}

Part up(const PartBuilder& build, const LlamaSpec& spec) {
  const std::int64_t hidden = spec.hidden_width();
  Begin begin{.norm = norm_before(build, spec), .linears = {}};
  const auto linear = [&](const char* name, std::int64_t out) {
    begin.linears.push_back(add(build, spec, name, spec.width, out, spec.mlp_bias));
  };
  if (spec.fused_linears) {
    linear("gate_up", 2 * hidden);
  } else {
    linear("gate", hidden);
    linear("up", hidden);
  }
  return [begin](Values input, const Context& context) -> Values {
    return begin(take(input, 0), context);
  };
}

Part down(const PartBuilder& build, const LlamaSpec& spec) {
  const End end = add_end(build, spec, "down", spec.hidden_width(), spec.mlp_bias);
  return [end, activation = spec.activation](Values input, const Context& context) -> Values {
    const at::Tensor x_BTC = std::move(input.back());
    input.pop_back();
    const at::Tensor hidden = remade(std::move(input), context, [activation](const Values& from) {
      const Values both = from.size() == 2 ? from : from[0].chunk(2, 2);
      return gated(both[0], both[1], activation);
    });
    return {end(hidden, x_BTC, context)};
  };
}

}  // namespace
}  // namespace trireme::model
