// SPDX-License-Identifier: Apache-2.0
#include "linear_cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

namespace trireme::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Logits, and after them their gradients, in this type: what at::linear would give.
at::ScalarType product_type(const at::Tensor& x) {
  const c10::DeviceType device = x.device().type();
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device)
                                                   : x.scalar_type();
}

bool is_narrow(at::ScalarType type) {
  return type != at::kFloat && type != at::kDouble;
}

at::ScalarType sum_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// Some rows of the head: their loss and, over the same rows, what the backward begins with.
class Rows {
 public:
  Rows(const at::Tensor& x_NC, const at::Tensor& weight_VC, const at::Tensor& target_N)
      : logits_NV_(at::matmul(x_NC, weight_VC.t())), target_N1_(target_N.unsqueeze(1)) {
    if (!is_narrow(logits_NV_.scalar_type())) {
      log_p_NV_ = at::log_softmax(logits_NV_, -1);
    } else if (logits_NV_.is_cuda()) {  // one kernel that reads 2 bytes and writes 4
      log_p_NV_ = at::_log_softmax(logits_NV_, -1, /*half_to_float=*/true);
    } else {
      log_p_NV_ = at::log_softmax(logits_NV_.to(at::kFloat), -1);
    }
  }

  /// The sum of the rows' losses, negative.
  at::Tensor log_likelihood() const { return log_p_NV_.gather(1, target_N1_).sum(); }

  /// Gradients of the sum of the rows' losses by their logits, written over these: the
  /// probabilities, less 1 at the target.
  at::Tensor into_gradients() {
    at::exp_out(logits_NV_, log_p_NV_);
    const at::Tensor of_target = log_p_NV_.gather(1, target_N1_).expm1_();
    logits_NV_.scatter_(1, target_N1_, of_target.to(logits_NV_.scalar_type()));
    log_p_NV_.reset();
    return logits_NV_;
  }

 private:
  at::Tensor logits_NV_, log_p_NV_, target_N1_;
};

/// All rows at once; the products of the backward wait for it.
struct WholeLoss : torch::autograd::Function<WholeLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_NC,
                            const at::Tensor& weight_VC, const at::Tensor& target_N,
                            bool needs_gradients) {
    const at::ScalarType type = product_type(x_NC);
    const at::Tensor x = x_NC.to(type), weight = weight_VC.to(type);
    Rows rows(x, weight, target_N);
    at::Tensor loss = rows.log_likelihood().div_(-static_cast<double>(x.size(0)));
    if (needs_gradients) context->save_for_backward({x, weight, rows.into_gradients()});
    return loss;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &g = saved[2];
    const at::Tensor scale = gradients[0] / static_cast<double>(x.size(0));
    return {at::matmul(g, weight).mul_(scale), at::matmul(g.t(), x * scale), {}, {}};
  }
};

struct ChunkedLoss : torch::autograd::Function<ChunkedLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_NC,
                            const at::Tensor& weight_VC, const at::Tensor& target_N,
                            std::int64_t chunks, bool needs_gradients) {
    const at::ScalarType type = product_type(x_NC), sums = sum_type(x_NC);
    const std::int64_t rows = x_NC.size(0), part = (rows + chunks - 1) / chunks;
    const double share = 1.0 / static_cast<double>(rows);
    const at::Tensor weight = weight_VC.to(type);
    at::Tensor likelihood = at::zeros({}, x_NC.options().dtype(sums));
    at::Tensor x_gradient, weight_gradient;
    if (needs_gradients) {
      x_gradient = at::empty_like(x_NC);
      weight_gradient = at::zeros_like(weight_VC, weight_VC.options().dtype(sums));
    }
    for (std::int64_t begin = 0; begin < rows; begin += part) {
      const std::int64_t count = std::min(part, rows - begin);
      const at::Tensor x = x_NC.narrow(0, begin, count).to(type);
      Rows of_part(x, weight, target_N.narrow(0, begin, count));
      likelihood.add_(of_part.log_likelihood());
      if (!needs_gradients) continue;
      const at::Tensor g = of_part.into_gradients();
      x_gradient.narrow(0, begin, count).copy_(at::matmul(g, weight).mul_(share));
      weight_gradient.add_(at::matmul(g.t(), x * share));
    }
    if (needs_gradients) context->save_for_backward({x_gradient, weight_gradient});
    return likelihood.mul_(-share);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    return {saved[0] * gradients[0], saved[1] * gradients[0], {}, {}, {}};
  }
};

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& x_NC, const at::Tensor& weight_VC,
                                const at::Tensor& target_N, int chunks) {
  const bool needs_gradients = at::GradMode::is_enabled();
  if (chunks > 1)
    return ChunkedLoss::apply(x_NC, weight_VC, target_N, std::int64_t{chunks}, needs_gradients);
  if (is_narrow(product_type(x_NC)))
    return WholeLoss::apply(x_NC, weight_VC, target_N, needs_gradients);
  return at::cross_entropy_loss(at::linear(x_NC, weight_VC), target_N);
}

}  // namespace trireme::model
