// Embedding and head of the language models.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "architectures/parts.h"

namespace trireme::model {

/// `token.weight` [vocabulary, width]; tied to the output weight if `is_tied`.
at::Tensor add_token_embedding(const PartBuilder& build, std::int64_t vocabulary,
                               std::int64_t width, bool is_tied);
/// `output.weight` with the same shape.
at::Tensor add_output_weight(const PartBuilder& build, std::int64_t vocabulary, std::int64_t width,
                             bool is_tied);

/// When a text is run by pieces, the last token [B, 1, C], the only one whose logits are needed;
/// otherwise x.
at::Tensor tokens_for_head(const at::Tensor& x_BTC, const Surroundings& around);

/// What becomes of a product with the output weight.
struct Logits {
  double divisor = 1;
  double cap = 0;  ///< soft cap after the divisor, cap x tanh(y / cap); 0: none
};

/// Mean cross-entropy of the next token, with logits x_BTC times the output weight (masked targets
/// as in Context::target), all logits at once or in `chunks` parts. Without a target, returns the
/// logits [B, T, vocabulary].
at::Tensor next_token_loss(const at::Tensor& x_BTC, const at::Tensor& output_weight,
                           const Context& context, int chunks, const Logits& logits = {});

}  // namespace trireme::model
