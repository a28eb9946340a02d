// GPT-2 (Radford et al. 2019): pre-norm blocks, learned positions, tanh GELU, causal fused
// attention.
//
// Shapes: B examples of the micro-batch, T tokens, C width, V vocabulary.
// SPDX-License-Identifier: Apache-2.0
#include "architectures/document_attention.h"
#include "architectures/language.h"
#include "architectures/transformer.h"
#include "run/trained.h"

#include "trireme/core/text.h"
#include "trireme/model/functional.h"

#include <ATen/ATen.h>

namespace trireme::model {
namespace {

/// Rows of the table for the positions of tokens [B, T]: [B, T, C], or [T, C] for all examples.
at::Tensor positions_of(const at::Tensor& tokens_BT, const at::Tensor& table,
                        const Surroundings& around) {
  const std::int64_t T = tokens_BT.size(1);
  const std::vector<std::int64_t>& documents = around.context.documents;
  if (documents.empty())
    return table.narrow(0, around.past == nullptr ? 0 : around.past->tokens(), T);
  const at::Tensor in_order_T = at::arange(T, tokens_BT.options());
  return embed(table, by_position(in_order_T, documents).view_as(tokens_BT));
}

/// Tokens int64 [B, T] to [B, T, C].
Part embedding(const PartBuilder& build, const config::GptSpec& spec) {
  const at::Tensor token = add_token_embedding(build, spec.vocabulary, spec.width, spec.tied_head);
  const at::Tensor position =
      build.normal("position.weight", {spec.table_rows(), spec.width}, kDeviation);
  return [token, position, spec](Values input, const Surroundings& around) -> Values {
    const at::Tensor x_BTC = embed(token, input[0]) + positions_of(input[0], position, around);
    return {dropout(x_BTC, spec.dropout, around)};
  };
}

/// [B, T, C] to the mean cross-entropy of the next token, or without a target to its logits.
Part head(const PartBuilder& build, const config::GptSpec& spec) {
  const Norm norm = add_norm(build, "norm", spec.width, spec.norm_epsilon);
  const at::Tensor weight = add_output_weight(build, spec.vocabulary, spec.width, spec.tied_head);
  return [norm, weight, chunks = spec.loss_chunks](Values input,
                                                   const Surroundings& around) -> Values {
    const at::Tensor x_BTC = tokens_for_head(input[0], around);
    return {next_token_loss(norm(x_BTC, around), weight, around, chunks)};
  };
}

}  // namespace

ChainModel make_gpt(const config::GptSpec& spec) {
  const double T = spec.context, C = spec.width, V = spec.vocabulary;
  ChainModel model{.name = concat("gpt-", spec.blocks, "x", spec.width),
                   .layers = {},
                   .input = InputKind::kTokens,
                   .input_size = spec.context,
                   .classes = spec.vocabulary,
                   .takes_masked_targets = true,
                   .isolates_documents = true,
                   .gives_logits = true};
  model.layers.push_back(
      layer_of("embedding", "embedding", 8 * T * C,
               [spec](const PartBuilder& build) { return embedding(build, spec); }));
  add_transformer_blocks(model,
                         {.blocks = spec.blocks,
                          .width = spec.width,
                          .heads = spec.heads,
                          .tokens = spec.context,
                          .dropout = spec.dropout,
                          .is_causal = true,
                          .gelu = "tanh",
                          .norm_epsilon = spec.norm_epsilon,
                          .lora = lora_of(spec)},
                         spec.grain);
  model.layers.push_back(layer_of("head", "head", T * C * V,
                                  [spec](const PartBuilder& build) { return head(build, spec); }));
  train_as_asked(model, spec);
  return model;
}

}  // namespace trireme::model
