// Shapes: B examples of the micro-batch, T tokens, S tokens that they attend to, H heads of
// queries, G of keys and values, D values of a head, N = T x H / G queries that share keys.
// SPDX-License-Identifier: Apache-2.0
#include "architectures/attention.h"

#include "trireme/model/functional.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>

namespace trireme::model {
namespace {

/// Bool [T, T]: which tokens each token attends to.
at::Tensor window_mask(std::int64_t tokens, std::int64_t window, c10::Device device) {
  return at::ones({tokens, tokens}, at::TensorOptions(device).dtype(at::kBool))
      .tril()
      .triu(1 - window);
}

/// Queries of the heads that share keys, one head after the other, as if they were more tokens.
at::Tensor sharing(const at::Tensor& q_BTHD, std::int64_t kv_heads) {
  return q_BTHD.unflatten(2, at::IntArrayRef{kv_heads, -1}).permute({0, 2, 3, 1, 4}).flatten(2, 3);
}

/// sharing() undone: [B, G, N, D] to [B, T, H x D].
at::Tensor apart(const at::Tensor& x_BGND, std::int64_t tokens) {
  return x_BGND.unflatten(2, at::IntArrayRef{-1, tokens}).permute({0, 3, 1, 2, 4}).flatten(2);
}

/// softmax(cap tanh(scale q k^T / cap)) v, with probabilities in float32 or wider.
struct CappedAttention : torch::autograd::Function<CappedAttention> {
  /// Without a mask all queries attend to all keys.
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& q_BGND,
                            const at::Tensor& k_BGSD, const at::Tensor& v_BGSD,
                            const std::optional<at::Tensor>& given_TS, double scale, double cap) {
    const at::Tensor mask_TS = given_TS.value_or(at::Tensor());
    context->save_for_backward({q_BGND, k_BGSD, v_BGSD, mask_TS});
    context->saved_data["scale"] = scale;
    context->saved_data["cap"] = cap;
    const at::Tensor p_BGNS = weigh(q_BGND, k_BGSD, mask_TS, scale, cap).probabilities;
    return at::matmul(p_BGNS.to(v_BGSD.scalar_type()), v_BGSD);
  }

  /// With s = scale q k^T, t = tanh(s / cap) and p = softmax(cap t): ds = dsoftmax(dp) (1 - t^2).
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &dy = gradients[0];
    const double scale = context->saved_data["scale"].toDouble();
    Weighed at = weigh(q, k, saved[3], scale, context->saved_data["cap"].toDouble());
    const at::ScalarType type = q.scalar_type(), wide = at.probabilities.scalar_type();
    const at::Tensor dp = at::matmul(dy, v.transpose(2, 3)).to(wide);
    const at::Tensor dv = at::matmul(at.probabilities.to(type).transpose(2, 3), dy);
    const at::Tensor slope = at.tanh.square_().neg_().add_(1).mul_(scale);
    const at::Tensor ds =
        at::_softmax_backward_data(dp, at.probabilities, -1, wide).mul_(slope).to(type);
    return {at::matmul(ds, k), at::matmul(ds.transpose(2, 3), q), dv, {}, {}, {}};
  }

 private:
  struct Weighed {
    at::Tensor tanh, probabilities;  ///< [B, G, N, S]
  };

  static Weighed weigh(const at::Tensor& q, const at::Tensor& k, const at::Tensor& mask_TS,
                       double scale, double cap) {
    const at::Tensor products = at::matmul(q, k.transpose(2, 3));
    const at::ScalarType wide = products.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor tanh = products.to(wide).mul_(scale / cap).tanh_();
    at::Tensor scores = tanh * cap;
    if (mask_TS.defined())
      scores.unflatten(2, at::IntArrayRef{-1, mask_TS.size(0)})
          .masked_fill_(mask_TS.logical_not(), -std::numeric_limits<double>::infinity());
    return {tanh, at::softmax(scores, -1)};
  }
};

at::Tensor capped_attention(const at::Tensor& q_BTHD, const at::Tensor& k_BGSD,
                            const at::Tensor& v_BGSD, const std::optional<at::Tensor>& mask_TS,
                            const Scores& scores) {
  const at::ScalarType type = product_type(q_BTHD);
  const double scale = scores.scale.value_or(1 / std::sqrt(static_cast<double>(q_BTHD.size(3))));
  return apart(CappedAttention::apply(sharing(q_BTHD, k_BGSD.size(1)).to(type), k_BGSD.to(type),
                                      v_BGSD.to(type), mask_TS, scale, scores.cap),
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

at::Tensor attention_with(const std::optional<at::Tensor>& mask_TS, const at::Tensor& q_BTHD,
                          const at::Tensor& k_BTGD, const at::Tensor& v_BTGD, bool is_causal,
                          std::optional<double> scale) {
  const bool is_grouped = q_BTHD.size(2) != k_BTGD.size(2);
  const at::Tensor attended_BHTD = at::scaled_dot_product_attention(
      q_BTHD.transpose(1, 2), k_BTGD.transpose(1, 2), v_BTGD.transpose(1, 2), mask_TS,
      /*dropout_p=*/0.0, is_causal, scale, is_grouped);
  return attended_BHTD.transpose(1, 2).flatten(2);
}

}  // namespace

at::Tensor attention(const at::Tensor& q_BTHD, const at::Tensor& k_BTGD, const at::Tensor& v_BTGD,
                     bool is_causal, std::optional<double> scale) {
  return attention_with(/*mask_TS=*/{}, q_BTHD, k_BTGD, v_BTGD, is_causal, scale);
}

at::Tensor causal_attention(const at::Tensor& q_BTHD, const at::Tensor& k_BTGD,
                            const at::Tensor& v_BTGD, const Surroundings& around,
                            const Scores& scores) {
  if (around.past != nullptr)
    return attention_of_piece(q_BTHD, k_BTGD, v_BTGD, *around.past, scores);
  const std::int64_t T = q_BTHD.size(1), window = scores.window.value_or(T);
  if (window >= T && scores.cap == 0)
    return attention(q_BTHD, k_BTGD, v_BTGD, /*is_causal=*/true, scores.scale);
  const at::Tensor mask_TT = window_mask(T, window, q_BTHD.device());
  if (scores.cap > 0)
    return capped_attention(q_BTHD, k_BTGD.transpose(1, 2), v_BTGD.transpose(1, 2), mask_TT,
                            scores);
  return attention_with(mask_TT, q_BTHD, k_BTGD, v_BTGD, /*is_causal=*/false, scores.scale);
}

}  // namespace trireme::model
