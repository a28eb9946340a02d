// SPDX-License-Identifier: Apache-2.0
#include "device/linear_cross_entropy.h"

#include "device/device_kernels.h"
#include "device/weight_gradients.h"

#include "trireme/model/functional.h"
#include "trireme/model/layer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>

namespace trireme::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool is_narrow(at::ScalarType type) {
  return type != at::kFloat && type != at::kDouble;
}

at::ScalarType sum_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// Log-probabilities are computed and freed in slices of this many bytes, which fit caches and do
/// not set the peak.
constexpr std::int64_t kSlice = std::int64_t{32} << 20;

/// Log-softmax in float32 or wider.
at::Tensor log_probabilities(const at::Tensor& logits_NV) {
  // LibTorch has a kernel from two bytes to four for float16 alone.
  return at::log_softmax(is_narrow(logits_NV.scalar_type()) ? logits_NV.to(at::kFloat) : logits_NV,
                         -1);
}

/// Log-likelihood of the targets, summed over unmasked rows; its negative is the loss. With
/// `needs_gradients` the logits are overwritten with the gradients of that loss: the probabilities,
/// less 1 at the target, and zeros in masked rows.
at::Tensor log_likelihood(at::Tensor& logits_NV, const Targets& targets, bool needs_gradients) {
  if (const auto of_rows = device_log_likelihood(logits_NV, targets.classes_N, needs_gradients))
    return of_rows->sum();
  const at::ScalarType sums = sum_type(logits_NV);
  const std::int64_t rows = logits_NV.size(0);
  const auto bytes_of_row = logits_NV.size(1) * static_cast<std::int64_t>(c10::elementSize(sums));
  const std::int64_t at_once = std::max<std::int64_t>(1, kSlice / bytes_of_row);
  const bool is_masked = targets.share.defined();
  at::Tensor target_N1 = targets.classes_N.unsqueeze(1), mask_N1;
  if (is_masked) {
    mask_N1 = target_N1 == kMasked;
    target_N1 = target_N1.masked_fill(mask_N1, 0);
  }
  at::Tensor of_target_N1 = at::empty({rows, 1}, logits_NV.options().dtype(sums));
  for (std::int64_t begin = 0; begin < rows; begin += at_once) {
    const std::int64_t count = std::min(at_once, rows - begin);
    at::Tensor logits = logits_NV.narrow(0, begin, count);
    at::Tensor of_target = of_target_N1.narrow(0, begin, count);
    const at::Tensor log_p = log_probabilities(logits);
    at::gather_out(of_target, log_p, 1, target_N1.narrow(0, begin, count));
    if (needs_gradients) at::exp_out(logits, log_p);
    if (needs_gradients && is_masked) logits.masked_fill_(mask_N1.narrow(0, begin, count), 0);
  }
  if (is_masked) of_target_N1.masked_fill_(mask_N1, 0);
  if (needs_gradients)
    logits_NV.scatter_(1, target_N1, at::expm1(of_target_N1).to(logits_NV.scalar_type()));
  return of_target_N1.sum();
}

/// Caps logits in place: y becomes cap x tanh(y / cap). Returns its slope by y, undefined without a
/// cap.
at::Tensor capped(at::Tensor& logits_NV, double cap) {
  if (cap == 0) return {};
  const at::Tensor tanh = logits_NV.div_(cap).tanh_();
  at::Tensor slope = (tanh * tanh).neg_().add_(1);
  logits_NV.mul_(cap);
  return slope;
}

/// Which gradients are needed: a frozen head has none, and its gradient would be the largest.
struct Wanted {
  bool x = false, weight = false;

  bool any() const { return x || weight; }
};

/// Weight of a row: `share` as in Targets. A CPU scalar works with operators of any device.
at::Tensor weight_of_row(const at::Tensor& share, const at::Tensor& rows) {
  if (share.defined()) return share;
  return at::scalar_tensor(1.0 / static_cast<double>(rows.size(0)), sum_type(rows));
}

/// The loss of all rows at once; the products are computed in the backward.
struct WholeLoss : torch::autograd::Function<WholeLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_NC,
                            const at::Tensor& weight_VC, const Targets& targets, Wanted wanted,
                            double cap) {
    const at::ScalarType type = product_type(x_NC);
    const at::Tensor x = x_NC.to(type), weight = weight_VC.to(type);
    at::Tensor logits = at::matmul(x, weight.t());
    const at::Tensor slope = capped(logits, cap);
    at::Tensor loss = log_likelihood(logits, targets, wanted.any());
    if (slope.defined()) logits.mul_(slope);
    if (wanted.any())
      context->save_for_backward({wanted.weight ? x : at::Tensor(),
                                  wanted.x ? weight : at::Tensor(), logits, targets.share});
    return loss.mul_(weight_of_row(targets.share, x_NC)).neg_();
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &g = saved[2];
    const at::Tensor scale = gradients[0] * weight_of_row(saved[3], g);
    at::Tensor of_x, of_weight;
    if (weight.defined()) of_x = at::matmul(g, weight).mul_(scale);
    if (x.defined()) {
      const auto edges = torch::autograd::get_current_node();
      // g is as large as the logits, the largest tensor of all: its product is not deferred.
      of_weight = gradient_by_product(edges->next_edge(1), g, x * scale, ProductTime::kAtOnce);
    }
    return {of_x, of_weight, {}, {}, {}};
  }
};

struct ChunkedLoss : torch::autograd::Function<ChunkedLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_NC,
                            const at::Tensor& weight_VC, const Targets& targets,
                            std::int64_t chunks, Wanted wanted, double cap) {
    const at::ScalarType type = product_type(x_NC), sums = sum_type(x_NC);
    const std::int64_t rows = x_NC.size(0), part = (rows + chunks - 1) / chunks;
    const at::Tensor share = weight_of_row(targets.share, x_NC);
    const at::Tensor weight = weight_VC.to(type);
    at::Tensor likelihood = at::zeros({}, x_NC.options().dtype(sums));
    at::Tensor x_gradient, weight_gradient;
    if (wanted.x) x_gradient = at::empty_like(x_NC);
    if (wanted.weight) weight_gradient = at::zeros_like(weight_VC, weight_VC.options().dtype(sums));
    for (std::int64_t begin = 0; begin < rows; begin += part) {
      const std::int64_t count = std::min(part, rows - begin);
      const at::Tensor x = x_NC.narrow(0, begin, count).to(type);
      at::Tensor logits = at::matmul(x, weight.t());
      const Targets part_of_them{.classes_N = targets.classes_N.narrow(0, begin, count),
                                 .share = targets.share};
      const at::Tensor slope = capped(logits, cap);
      likelihood.add_(log_likelihood(logits, part_of_them, wanted.any()));
      if (slope.defined()) logits.mul_(slope);
      const at::Tensor& g = logits;
      if (wanted.x) x_gradient.narrow(0, begin, count).copy_(at::matmul(g, weight).mul_(share));
      if (wanted.weight) weight_gradient.add_(at::matmul(g.t(), x * share));
    }
    if (wanted.any()) context->save_for_backward({x_gradient, weight_gradient});
    return likelihood.mul_(share).neg_();
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto scaled = [&](const at::Tensor& gradient) {
      return gradient.defined() ? gradient * gradients[0] : gradient;
    };
    return {scaled(saved[0]), scaled(saved[1]), {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& x_NC, const at::Tensor& weight_VC,
                                const Targets& targets, int chunks, double cap) {
  const bool differentiates = at::GradMode::is_enabled();
  const Wanted wanted{.x = differentiates && x_NC.requires_grad(),
                      .weight = differentiates && weight_VC.requires_grad()};
  if (chunks > 1)
    return ChunkedLoss::apply(x_NC, weight_VC, targets, std::int64_t{chunks}, wanted, cap);
  if (cap > 0 || is_narrow(product_type(x_NC)))
    return WholeLoss::apply(x_NC, weight_VC, targets, wanted, cap);
  const at::Tensor logits = at::linear(x_NC, weight_VC);
  if (!targets.share.defined()) return at::cross_entropy_loss(logits, targets.classes_N);
  return at::cross_entropy_loss(logits, targets.classes_N, {}, at::Reduction::Sum, kMasked) *
         targets.share;
}

}  // namespace trireme::model
