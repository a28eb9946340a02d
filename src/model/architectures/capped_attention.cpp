// SPDX-License-Identifier: Apache-2.0
#include "architectures/capped_attention.h"

#include <ATen/ATen.h>

#include <limits>

namespace trireme::model {
namespace {

struct Weighed {
  at::Tensor tanh, probabilities;  ///< [B, G, N, S]
};

Weighed weigh(const at::Tensor& q, const at::Tensor& k, const Cap& by) {
  const at::Tensor products = at::matmul(q, k.transpose(2, 3));
  const at::ScalarType wide = products.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor tanh = products.to(wide).mul_(by.scale / by.cap).tanh_();
  at::Tensor scores = tanh * by.cap;
  if (by.mask.defined())
    scores.unflatten(2, at::IntArrayRef{-1, by.mask.size(-2)})
        .masked_fill_(by.mask.logical_not(), -std::numeric_limits<double>::infinity());
  return {tanh, at::softmax(scores, -1)};
}

}  // namespace

at::Tensor sharing(const at::Tensor& q_BTHD, std::int64_t kv_heads) {
  return q_BTHD.unflatten(2, at::IntArrayRef{kv_heads, -1}).permute({0, 2, 3, 1, 4}).flatten(2, 3);
}

at::Tensor apart(const at::Tensor& x_BGND, std::int64_t tokens) {
  return x_BGND.unflatten(2, at::IntArrayRef{-1, tokens}).permute({0, 3, 1, 2, 4}).flatten(2);
}

at::Tensor capped_values(const at::Tensor& q_BGND, const at::Tensor& k_BGSD,
                         const at::Tensor& v_BGSD, const Cap& by) {
  const at::Tensor p_BGNS = weigh(q_BGND, k_BGSD, by).probabilities;
  return at::matmul(p_BGNS.to(v_BGSD.scalar_type()), v_BGSD);
}

// With s = scale q k^T, t = tanh(s / cap) and p = softmax(cap t): ds = dsoftmax(dp) (1 - t^2).
CappedGradients capped_gradients(const at::Tensor& dy, const at::Tensor& q, const at::Tensor& k,
                                 const at::Tensor& v, const Cap& by) {
  Weighed at = weigh(q, k, by);
  const at::ScalarType type = q.scalar_type(), wide = at.probabilities.scalar_type();
  const at::Tensor dp = at::matmul(dy, v.transpose(2, 3)).to(wide);
  const at::Tensor dv = at::matmul(at.probabilities.to(type).transpose(2, 3), dy);
  const at::Tensor slope = at.tanh.square_().neg_().add_(1).mul_(by.scale);
  const at::Tensor ds =
      at::_softmax_backward_data(dp, at.probabilities, -1, wide).mul_(slope).to(type);
  return {at::matmul(ds, k), at::matmul(ds.transpose(2, 3), q), dv};
}

}  // namespace trireme::model
