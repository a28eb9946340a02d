// A llama-like decoder (Touvron et al. 2023): RMS norm, rotary positions (Su et al. 2021),
// grouped-query attention (Ainslie et al. 2023), SwiGLU (Shazeer 2020), no biases except optionally
// those of queries, keys and values (Qwen team 2024).
//
// Shapes: B examples of the micro-batch, T tokens, C width, H heads of queries, G of keys and
// values, D = C / H, V vocabulary. Between parts, x is the residual and the last member.
// SPDX-License-Identifier: Apache-2.0
#include "architectures/attention.h"
#include "architectures/language.h"
#include "architectures/rotary.h"
#include "architectures/transformer.h"
#include "run/trained.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/model/functional.h"

#include <ATen/ATen.h>

#include <cmath>

namespace trireme::model {
namespace {

using config::LlamaSpec;

/// x to {q, k, v, x} with q [B, T, H, D] and k [B, T, G, D] rotated by their positions. The tape:
/// norm(x), a number per token and the angles; the rotation does not save its input.
Part qkv(const PartBuilder& build, const LlamaSpec& spec);
/// {q, k, v, x} to {attended, x}. The tape: attended and a number per head and token; keys and
/// values are not repeated for the queries that share them.
Part core(const LlamaSpec& spec);
/// {attended, x} to x + projection(attended). The tape: nothing.
Part projection(const PartBuilder& build, const LlamaSpec& spec);
/// x to {gate(norm(x)), up(norm(x)), x}. The tape: norm(x) and a number per token.
Part up(const PartBuilder& build, const LlamaSpec& spec);
/// {g, u, x} to x + down(silu(g) u). The tape: silu(g) u.
Part down(const PartBuilder& build, const LlamaSpec& spec);

std::vector<PartRecipe> parts_of(const LlamaSpec& spec);

Norm add_norm(const PartBuilder& build, const LlamaSpec& spec) {
  return add_rms_norm(build, "norm", spec.width, spec.norm_epsilon);
}

/// As in GPT-2: small initial weights at the end of branches keep the residual's variance.
double residual_deviation(const LlamaSpec& spec) {
  return kDeviation / std::sqrt(2.0 * spec.blocks);
}

/// Tokens int64 [B, T] to [B, T, C].
Part embedding(const PartBuilder& build, const LlamaSpec& spec) {
  const at::Tensor token = add_token_embedding(build, spec.vocabulary, spec.width, spec.tied_head);
  return [token](Values input, const Context&) -> Values { return {embed(token, input[0])}; };
}

/// [B, T, C] to the mean cross-entropy of the next token, or without a target to its logits.
Part head(const PartBuilder& build, const LlamaSpec& spec) {
  const Norm norm = add_norm(build, spec);
  const at::Tensor weight = add_output_weight(build, spec.vocabulary, spec.width, spec.tied_head);
  return [norm, weight, chunks = spec.loss_chunks](Values input,
                                                   const Surroundings& around) -> Values {
    const at::Tensor x_BTC = tokens_for_head(input[0], around);
    return {next_token_loss(norm(x_BTC, around), weight, around, chunks)};
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
                   .gives_logits = true};
  model.layers.push_back(
      layer_of("embedding", "embedding", 4 * T * C,
               [spec](const PartBuilder& build) { return embedding(build, spec); }));
  const std::vector<PartRecipe> parts = parts_of(spec);
  for (int block = 0; block < spec.blocks; ++block)
    add_block(model, concat("block", block), parts, spec.grain);
  model.layers.push_back(layer_of("head", "head", T * C * V,
                                  [spec](const PartBuilder& build) { return head(build, spec); }));
  train_as_asked(model, spec);
  return model;
}

namespace {

std::vector<PartRecipe> parts_of(const LlamaSpec& spec) {
  const double T = spec.context, C = spec.width;
  const double keys = C * spec.key_value_heads() / spec.heads;
  const auto hidden = static_cast<double>(spec.hidden_width());
  return {{.place = "attention",
           .name = "qkv",
           .work = T * C * (C + 2 * keys),
           .build = [spec](const PartBuilder& build) { return qkv(build, spec); }},
          {.place = "attention",
           .name = "core",
           .work = T * T * C,
           .build = [spec](const PartBuilder&) { return core(spec); }},
          {.place = "attention",
           .name = "projection",
           .work = T * C * C,
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

Part qkv(const PartBuilder& build, const LlamaSpec& spec) {
  const std::int64_t C = spec.width, D = C / spec.heads, G = spec.key_value_heads();
  const Norm norm = add_norm(build, spec);
  const auto add = spec.qkv_bias ? add_linear : add_linear_without_bias;
  const Linear q = add(build, "q", C, C, kDeviation, lora_of(spec));
  const Linear k = add(build, "k", C, G * D, kDeviation, lora_of(spec));
  const Linear v = add(build, "v", C, G * D, kDeviation, lora_of(spec));
  return [norm, q, k, v, spec, D, G](Values input, const Surroundings& around) -> Values {
    Values qkvx = norm.into({&q, &k, &v}, take(input, 0), around);
    const at::Tensor x_BTC = take(qkvx, 3);
    // Angles are at least float32; the rotated values keep their type.
    const at::ScalarType of_weights = q.weight.scalar_type();
    const at::ScalarType type = of_weights == at::kBFloat16 ? at::kFloat : of_weights;
    const std::int64_t first = around.past == nullptr ? 0 : around.past->tokens();
    const Angles by = angles(first, x_BTC.size(1), spec, x_BTC.options().dtype(type));
    return {turned(take(qkvx, 0), spec.heads, by), turned(take(qkvx, 1), G, by), take(qkvx, 2),
            x_BTC};
  };
}

Part core(const LlamaSpec& spec) {
  return [G = std::int64_t{spec.key_value_heads()}](Values input,
                                                    const Surroundings& around) -> Values {
    const at::Tensor q_BTHD = take(input, 0), k_BTGD = take(input, 1);
    const at::Tensor v_BTGD = take(input, 2).unflatten(2, at::IntArrayRef{G, q_BTHD.size(3)});
    return {causal_attention(q_BTHD, k_BTGD, v_BTGD, around), take(input, 3)};
  };
}

Part projection(const PartBuilder& build, const LlamaSpec& spec) {
  const Linear projection = add_linear_without_bias(build, "projection", spec.width, spec.width,
                                                    residual_deviation(spec), lora_of(spec));
  return [projection](Values input, const Context& context) -> Values {
    return {take(input, 1) + projection(take(input, 0), context)};
  };
}

Part up(const PartBuilder& build, const LlamaSpec& spec) {
  const std::int64_t hidden = spec.hidden_width();
  const Norm norm = add_norm(build, spec);
  const Linear gate =
      add_linear_without_bias(build, "gate", spec.width, hidden, kDeviation, lora_of(spec));
  const Linear up =
      add_linear_without_bias(build, "up", spec.width, hidden, kDeviation, lora_of(spec));
  return [norm, gate, up](Values input, const Context& context) -> Values {
    return norm.into({&gate, &up}, take(input, 0), context);
  };
}

Part down(const PartBuilder& build, const LlamaSpec& spec) {
  const Linear down = add_linear_without_bias(build, "down", spec.hidden_width(), spec.width,
                                              residual_deviation(spec), lora_of(spec));
  return [down](Values input, const Context& context) -> Values {
    const at::Tensor hidden =
        remade({take(input, 0), take(input, 1)}, context,
               [](const Values& sources) { return swiglu(sources[0], sources[1]); });
    return {take(input, 2) + down(hidden, context)};
  };
}

}  // namespace
}  // namespace trireme::model
