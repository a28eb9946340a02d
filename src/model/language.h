// What chains of tokens begin and end with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parts.h"

namespace trireme::model {

/// `token.weight` [vocabulary, width]; tied to the output's weight if the head is.
at::Tensor add_token_embedding(const PartBuilder& build, std::int64_t vocabulary,
                               std::int64_t width, bool is_tied);
/// `output.weight` of the same sizes.
at::Tensor add_output_weight(const PartBuilder& build, std::int64_t vocabulary, std::int64_t width,
                             bool is_tied);

/// Of a text by pieces the last token, [B, 1, C], the only one whose logits are wanted; else x.
at::Tensor tokens_for_head(const at::Tensor& x_BTC, const Surroundings& around);

/// Mean cross-entropy of the next token by x_BTC times the output's weight (of masked targets as
/// Context::target says), all logits at once or in `chunks` parts. Without a target the logits
/// themselves, [B, T, vocabulary].
at::Tensor next_token_loss(const at::Tensor& x_BTC, const at::Tensor& output_weight,
                           const Context& context, int chunks);

}  // namespace trireme::model
