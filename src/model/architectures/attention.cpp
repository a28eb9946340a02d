// Shapes: B examples of the micro-batch, T tokens, H heads of queries, G of keys and values, D
// values of a head.
// SPDX-License-Identifier: Apache-2.0
#include "architectures/attention.h"

#include <ATen/ATen.h>

namespace trireme::model {

at::Tensor attention(const at::Tensor& q_BTHD, const at::Tensor& k_BTGD, const at::Tensor& v_BTGD,
                     bool is_causal) {
  const bool is_grouped = q_BTHD.size(2) != k_BTGD.size(2);
  const at::Tensor attended_BHTD = at::scaled_dot_product_attention(
      q_BTHD.transpose(1, 2), k_BTGD.transpose(1, 2), v_BTGD.transpose(1, 2), /*attn_mask=*/{},
      /*dropout_p=*/0.0, is_causal, /*scale=*/{}, is_grouped);
  return attended_BHTD.transpose(1, 2).flatten(2);
}

at::Tensor causal_attention(const at::Tensor& q_BTHD, const at::Tensor& k_BTGD,
                            const at::Tensor& v_BTGD, const Surroundings& around) {
  if (around.past == nullptr) return attention(q_BTHD, k_BTGD, v_BTGD, /*is_causal=*/true);
  Past& past = *around.past;
  const std::int64_t T = q_BTHD.size(1), G = k_BTGD.size(2);
  const Past::Seen seen = past.see(k_BTGD, v_BTGD);
  if (past.tokens() == 0 && past.sees_all(T))
    return attention(q_BTHD, k_BTGD, v_BTGD, /*is_causal=*/true);
  // Queries of R heads that share keys are concatenated, as if they were R x T tokens.
  const at::Tensor q_BGND =
      q_BTHD.unflatten(2, at::IntArrayRef{G, -1}).permute({0, 2, 3, 1, 4}).flatten(2, 3);
  std::optional<at::Tensor> mask_NS;  // none for one token, which attends to all
  if (T > 1)
    mask_NS = past.mask(T, seen.k_BGSD.size(2), q_BTHD.device()).repeat({q_BGND.size(2) / T, 1});
  const at::Tensor attended_BGND =
      at::scaled_dot_product_attention(q_BGND, seen.k_BGSD, seen.v_BGSD, mask_NS);
  return attended_BGND.unflatten(2, at::IntArrayRef{-1, T}).permute({0, 3, 1, 2, 4}).flatten(2);
}

}  // namespace trireme::model
