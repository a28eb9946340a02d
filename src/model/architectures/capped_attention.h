// Attention with a soft cap on its scores, as operators without a graph.
//
// Shapes: B examples, N queries that share keys, S tokens that they attend to, T tokens, H heads of
// queries, G of keys and values, D values of a head.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace trireme::model {

/// How scores become probabilities: softmax(cap tanh(scale q k^T / cap)), in float32 or wider.
struct Cap {
  double scale = 1, cap = 0;
  /// Bool [..., T, S]: which keys a query attends to; undefined: all. N counts heads, then tokens.
  at::Tensor mask = {};
};

/// Queries of the heads that share keys, one head after the other, as if they were more tokens: [B,
/// T, H, D] to [B, G, N, D].
at::Tensor sharing(const at::Tensor& q_BTHD, std::int64_t kv_heads);
/// sharing() undone: [B, G, N, D] to [B, T, H x D].
at::Tensor apart(const at::Tensor& x_BGND, std::int64_t tokens);

/// What the queries attend to, [B, G, N, D].
at::Tensor capped_values(const at::Tensor& q_BGND, const at::Tensor& k_BGSD,
                         const at::Tensor& v_BGSD, const Cap& by);

struct CappedGradients {
  at::Tensor q_BGND, k_BGSD, v_BGSD;
};
/// The gradients of capped_values(), whose scores are computed once more.
CappedGradients capped_gradients(const at::Tensor& dy_BGND, const at::Tensor& q_BGND,
                                 const at::Tensor& k_BGSD, const at::Tensor& v_BGSD, const Cap& by);

}  // namespace trireme::model
