// Shapes: B examples of the micro-batch, T tokens, S tokens that they attend to, H heads of
// queries, G of keys and values, D values of a head, N = T x H / G queries that share keys.
// SPDX-License-Identifier: Apache-2.0
#include "architectures/attention.h"

#include "architectures/document_attention.h"

#include "trireme/model/functional.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

namespace trireme::model {
namespace {

/// Attention with a cap, which saves its inputs alone.
struct CappedAttention : torch::autograd::Function<CappedAttention> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& q_BGND,
                            const at::Tensor& k_BGSD, const at::Tensor& v_BGSD, const Cap& by) {
    context->save_for_backward({q_BGND, k_BGSD, v_BGSD, by.mask});
    context->saved_data["scale"] = by.scale;
    context->saved_data["cap"] = by.cap;
    return capped_values(q_BGND, k_BGSD, v_BGSD, by);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const CappedGradients of = capped_gradients(gradients[0], saved[0], saved[1], saved[2],
                                                {.scale = context->saved_data["scale"].toDouble(),
                                                 .cap = context->saved_data["cap"].toDouble(),
                                                 .mask = saved[3]});
    return {of.q_BGND, of.k_BGSD, of.v_BGSD, {}};
  }
};

at::Tensor capped_attention(const at::Tensor& q_BTHD, const at::Tensor& k_BGSD,
                            const at::Tensor& v_BGSD, const std::optional<at::Tensor>& mask,
                            const Scores& scores) {
  const at::ScalarType type = product_type(q_BTHD);
  return apart(CappedAttention::apply(sharing(q_BTHD, k_BGSD.size(1)).to(type), k_BGSD.to(type),
                                      v_BGSD.to(type), cap_of(scores, q_BTHD.size(3), mask)),
               q_BTHD.size(1));
}

/// The attention of a text's next piece.
at::Tensor attention_of_piece(const at::Tensor& q_BTHD, const at::Tensor& k_BTGD,
                              const at::Tensor& v_BTGD, Past& past, const Scores& scores) {
  const std::int64_t T = q_BTHD.size(1);
  const Past::Seen seen = past.see(k_BTGD, v_BTGD);
  if (past.tokens() == 0 && past.sees_all(T) && scores.cap == 0)
    return attention(q_BTHD, k_BTGD, v_BTGD, /*is_causal=*/true, scores.scale);
  std::optional<at::Tensor> mask_TS;  // none for one token, which attends to all
  if (T > 1) mask_TS = past.mask(T, seen.k_BGSD.size(2), q_BTHD.device());
  if (scores.cap > 0) return capped_attention(q_BTHD, seen.k_BGSD, seen.v_BGSD, mask_TS, scores);
  const at::Tensor q_BGND = sharing(q_BTHD, k_BTGD.size(2));
  std::optional<at::Tensor> mask_NS;
  if (mask_TS) mask_NS = mask_TS->repeat({q_BGND.size(2) / T, 1});
  return apart(
      at::scaled_dot_product_attention(q_BGND, seen.k_BGSD, seen.v_BGSD, mask_NS,
                                       /*dropout_p=*/0.0, /*is_causal=*/false, scores.scale),
      T);
}

at::Tensor attention_with(const std::optional<at::Tensor>& mask, const at::Tensor& q_BTHD,
                          const at::Tensor& k_BTGD, const at::Tensor& v_BTGD, bool is_causal,
                          std::optional<double> scale) {
  const bool is_grouped = q_BTHD.size(2) != k_BTGD.size(2);
  const at::Tensor attended_BHTD = at::scaled_dot_product_attention(
      q_BTHD.transpose(1, 2), k_BTGD.transpose(1, 2), v_BTGD.transpose(1, 2), mask,
      /*dropout_p=*/0.0, is_causal, scale, is_grouped);
  return attended_BHTD.transpose(1, 2).flatten(2);
}

}  // namespace

at::Tensor attention(const at::Tensor& q_BTHD, const at::Tensor& k_BTGD, const at::Tensor& v_BTGD,
                     bool is_causal, std::optional<double> scale) {
  return attention_with(/*mask=*/{}, q_BTHD, k_BTGD, v_BTGD, is_causal, scale);
}

at::Tensor causal_attention(const at::Tensor& q_BTHD, const at::Tensor& k_BTGD,
                            const at::Tensor& v_BTGD, const Surroundings& around,
                            const Scores& scores) {
  if (around.past != nullptr)
    return attention_of_piece(q_BTHD, k_BTGD, v_BTGD, *around.past, scores);
  const std::vector<std::int64_t>& documents = around.context.documents;
  if (!documents.empty()) return document_attention(q_BTHD, k_BTGD, v_BTGD, documents, scores);
  const std::int64_t T = q_BTHD.size(1), window = scores.window.value_or(T);
  if (window >= T && scores.cap == 0)
    return attention(q_BTHD, k_BTGD, v_BTGD, /*is_causal=*/true, scores.scale);
  return masked_attention(q_BTHD, k_BTGD, v_BTGD, window_mask(T, window, q_BTHD.device()), scores);
}

at::Tensor window_mask(std::int64_t tokens, std::int64_t window, c10::Device device) {
  return at::ones({tokens, tokens}, at::TensorOptions(device).dtype(at::kBool))
      .tril()
      .triu(1 - window);
}

Cap cap_of(const Scores& scores, std::int64_t width, const std::optional<at::Tensor>& mask) {
  return {.scale = scores.scale.value_or(1 / std::sqrt(static_cast<double>(width))),
          .cap = scores.cap,
          .mask = mask.value_or(at::Tensor())};
}

at::Tensor masked_attention(const at::Tensor& q_BTHD, const at::Tensor& k_BTGD,
                            const at::Tensor& v_BTGD, const at::Tensor& mask,
                            const Scores& scores) {
  const bool is_by_row = mask.dim() == 3;
  if (scores.cap > 0)
    return capped_attention(q_BTHD, k_BTGD.transpose(1, 2), v_BTGD.transpose(1, 2),
                            is_by_row ? mask.unsqueeze(1).unsqueeze(1) : mask, scores);
  return attention_with(is_by_row ? mask.unsqueeze(1) : mask, q_BTHD, k_BTGD, v_BTGD,
                        /*is_causal=*/false, scores.scale);
}

}  // namespace trireme::model
