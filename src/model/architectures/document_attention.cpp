// SPDX-License-Identifier: Apache-2.0
#include "architectures/document_attention.h"

#include "architectures/capped_attention.h"

#include "trireme/model/functional.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <optional>
#include <tuple>

namespace trireme::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Attention of one document on a CPU, without a graph: what causal_attention() computes for a text
/// of its length, by the same kernels.
class OneDocument {
 public:
  explicit OneDocument(Scores scores) : scores_(scores) {}

  struct Result {
    at::Tensor y_THD, logsumexp_TH;  ///< the second undefined with a cap, which needs none
  };
  Result forward(const at::Tensor& q_THD, const at::Tensor& k_TGD, const at::Tensor& v_TGD) const {
    if (scores_.cap > 0) return {.y_THD = capped(q_THD, k_TGD, v_TGD), .logsumexp_TH = {}};
    const auto [y_1HTD, logsumexp_1HT] = at::_scaled_dot_product_flash_attention_for_cpu(
        in_heads(q_THD), in_heads(k_TGD), in_heads(v_TGD), /*dropout_p=*/0.0, is_plain(q_THD),
        mask_of(q_THD), scores_.scale);
    return {.y_THD = in_tokens(y_1HTD), .logsumexp_TH = logsumexp_1HT.squeeze(0).t()};
  }

  struct Gradients {
    at::Tensor q_THD, k_TGD, v_TGD;
  };
  Gradients backward(const at::Tensor& dy_THD, const at::Tensor& q_THD, const at::Tensor& k_TGD,
                     const at::Tensor& v_TGD, const Result& result) const {
    if (scores_.cap > 0) return capped_backward(dy_THD, q_THD, k_TGD, v_TGD);
    const auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        in_heads(dy_THD), in_heads(q_THD), in_heads(k_TGD), in_heads(v_TGD), in_heads(result.y_THD),
        result.logsumexp_TH.t().unsqueeze(0), /*dropout_p=*/0.0, is_plain(q_THD), mask_of(q_THD),
        scores_.scale);
    return {.q_THD = in_tokens(dq), .k_TGD = in_tokens(dk), .v_TGD = in_tokens(dv)};
  }

 private:
  static at::Tensor in_heads(const at::Tensor& x_THD) { return x_THD.transpose(0, 1).unsqueeze(0); }
  static at::Tensor in_tokens(const at::Tensor& x_1HTD) {
    return x_1HTD.squeeze(0).transpose(0, 1);
  }

  /// Whether every token sees all before it.
  bool is_plain(const at::Tensor& q_THD) const {
    return scores_.window.value_or(q_THD.size(0)) >= q_THD.size(0);
  }
  std::optional<at::Tensor> mask_of(const at::Tensor& q_THD) const {
    if (is_plain(q_THD)) return std::nullopt;
    const at::Tensor seen_TT = window_mask(q_THD.size(0), *scores_.window, q_THD.device());
    return at::zeros(seen_TT.sizes(), q_THD.options())
        .masked_fill_(seen_TT.logical_not(), -std::numeric_limits<double>::infinity());
  }

  Cap cap_for(const at::Tensor& q_THD) const {
    const std::int64_t tokens = q_THD.size(0);
    return cap_of(scores_, q_THD.size(2),
                  window_mask(tokens, scores_.window.value_or(tokens), q_THD.device()));
  }
  at::Tensor capped(const at::Tensor& q_THD, const at::Tensor& k_TGD,
                    const at::Tensor& v_TGD) const {
    const at::Tensor y_1GND = capped_values(sharing(q_THD.unsqueeze(0), k_TGD.size(1)),
                                            in_heads(k_TGD), in_heads(v_TGD), cap_for(q_THD));
    return apart(y_1GND, q_THD.size(0)).view_as(q_THD);
  }
  Gradients capped_backward(const at::Tensor& dy_THD, const at::Tensor& q_THD,
                            const at::Tensor& k_TGD, const at::Tensor& v_TGD) const {
    const std::int64_t kv_heads = k_TGD.size(1);
    const CappedGradients of = capped_gradients(sharing(dy_THD.unsqueeze(0), kv_heads),
                                                sharing(q_THD.unsqueeze(0), kv_heads),
                                                in_heads(k_TGD), in_heads(v_TGD), cap_for(q_THD));
    return {.q_THD = apart(of.q_BGND, q_THD.size(0)).view_as(q_THD),
            .k_TGD = in_tokens(of.k_BGSD),
            .v_TGD = in_tokens(of.v_BGSD)};
  }

  Scores scores_;
};

/// One document after the other. What it saves has the same sizes for all documents that fill the
/// rows; the one that fills a row needs most while it is computed.
struct DocumentAttention : torch::autograd::Function<DocumentAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q_NHD,
                            const at::Tensor& k_NGD, const at::Tensor& v_NGD,
                            const std::vector<std::int64_t>& documents, const Scores& scores) {
    const OneDocument attention(scores);
    const at::ScalarType sums = at::toOpMathType(q_NHD.scalar_type());
    at::Tensor y_NHD = at::empty(q_NHD.sizes(), q_NHD.options()), logsumexp_NH;
    if (scores.cap == 0)
      logsumexp_NH = at::empty({q_NHD.size(0), q_NHD.size(1)}, q_NHD.options().dtype(sums));
    for_each(documents, [&](std::int64_t begin, std::int64_t tokens) {
      const auto of = [&](const at::Tensor& all) { return all.narrow(0, begin, tokens); };
      const OneDocument::Result result = attention.forward(of(q_NHD), of(k_NGD), of(v_NGD));
      of(y_NHD).copy_(result.y_THD);
      if (logsumexp_NH.defined()) of(logsumexp_NH).copy_(result.logsumexp_TH);
    });
    // The result itself would hold its node, and its node the result until all is saved, which a
    // recomputed forward's early end may prevent.
    context->save_for_backward(
        {q_NHD, k_NGD, v_NGD, scores.cap == 0 ? y_NHD.detach() : at::Tensor(), logsumexp_NH});
    context->saved_data["documents"] = documents;
    context->saved_data["scale"] = scores.scale;
    context->saved_data["cap"] = scores.cap;
    context->saved_data["window"] = scores.window;
    return y_NHD;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &y = saved[3], &sums = saved[4];
    const OneDocument attention({.scale = context->saved_data["scale"].toOptional<double>(),
                                 .cap = context->saved_data["cap"].toDouble(),
                                 .window = context->saved_data["window"].toOptional<int64_t>()});
    at::Tensor dq = at::empty(q.sizes(), q.options()), dk = at::empty(k.sizes(), k.options()),
               dv = at::empty(v.sizes(), v.options());
    for_each(context->saved_data["documents"].toIntVector(), [&](std::int64_t begin,
                                                                 std::int64_t tokens) {
      const auto of = [&](const at::Tensor& all) {
        return all.defined() ? all.narrow(0, begin, tokens) : all;
      };
      const OneDocument::Gradients one = attention.backward(
          of(gradients[0]), of(q), of(k), of(v), {.y_THD = of(y), .logsumexp_TH = of(sums)});
      of(dq).copy_(one.q_THD);
      of(dk).copy_(one.k_TGD);
      of(dv).copy_(one.v_TGD);
    });
    return {dq, dk, dv, {}, {}};
  }

 private:
  template <class Body>
  static void for_each(const std::vector<std::int64_t>& documents, const Body& body) {
    std::int64_t begin = 0;
    for (const std::int64_t tokens : documents) {
      body(begin, tokens);
      begin += tokens;
    }
  }
};

/// Bool [B, T, T]: which tokens each token attends to.
at::Tensor document_mask(const at::Tensor& q_BTHD, const std::vector<std::int64_t>& documents,
                         std::optional<std::int64_t> window) {
  const std::int64_t B = q_BTHD.size(0), T = q_BTHD.size(1);
  const auto count = static_cast<std::int64_t>(documents.size());
  const at::Tensor numbers = at::arange(count, q_BTHD.options().dtype(at::kInt));
  std::vector<at::Tensor> of_tokens;
  for (std::int64_t i = 0; i < count; ++i)
    of_tokens.push_back(numbers.narrow(0, i, 1).expand({documents[static_cast<std::size_t>(i)]}));
  const at::Tensor document_BT = at::cat(of_tokens).view({B, T});
  return (document_BT.unsqueeze(2) == document_BT.unsqueeze(1))
      .logical_and_(window_mask(T, window.value_or(T), q_BTHD.device()));
}

}  // namespace

at::Tensor by_position(const at::Tensor& table, const std::vector<std::int64_t>& documents) {
  std::vector<at::Tensor> of_documents;
  for (const std::int64_t tokens : documents) of_documents.push_back(table.narrow(0, 0, tokens));
  return at::cat(of_documents);
}

at::Tensor document_attention(const at::Tensor& q_BTHD, const at::Tensor& k_BTGD,
                              const at::Tensor& v_BTGD, const std::vector<std::int64_t>& documents,
                              const Scores& scores) {
  const std::int64_t B = q_BTHD.size(0), T = q_BTHD.size(1);
  if (!q_BTHD.device().is_cpu())
    return masked_attention(q_BTHD, k_BTGD, v_BTGD, document_mask(q_BTHD, documents, scores.window),
                            scores);
  const at::ScalarType type = product_type(q_BTHD);
  const auto all = [type](const at::Tensor& x) { return x.to(type).flatten(0, 1); };
  return DocumentAttention::apply(all(q_BTHD), all(k_BTGD), all(v_BTGD), documents, scores)
      .view({B, T, -1});
}

}  // namespace trireme::model
