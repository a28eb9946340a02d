// SPDX-License-Identifier: Apache-2.0
#include "chunked_loss.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

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

at::ScalarType sum_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

/// Gradients of the logits' mean cross-entropy over `rows` rows, in place of log-probabilities.
at::Tensor logit_gradients(at::Tensor log_p_NV, const at::Tensor& target_N1, std::int64_t rows) {
  log_p_NV.exp_();
  log_p_NV.scatter_(1, target_N1, log_p_NV.gather(1, target_N1).sub_(1));
  return log_p_NV.div_(static_cast<double>(rows));
}

struct ChunkedLoss : torch::autograd::Function<ChunkedLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_NC,
                            const at::Tensor& weight_VC, const at::Tensor& target_N,
                            std::int64_t chunks, bool needs_gradients) {
    const at::ScalarType type = product_type(x_NC), sums = sum_type(x_NC);
    const std::int64_t rows = x_NC.size(0), part = (rows + chunks - 1) / chunks;
    const at::Tensor weight = weight_VC.to(type);
    at::Tensor loss = at::zeros({}, x_NC.options().dtype(sums));
    at::Tensor x_gradient, weight_gradient;
    if (needs_gradients) {
      x_gradient = at::empty_like(x_NC);
      weight_gradient = at::zeros_like(weight_VC);
    }
    for (std::int64_t begin = 0; begin < rows; begin += part) {
      const std::int64_t count = std::min(part, rows - begin);
      const at::Tensor x = x_NC.narrow(0, begin, count).to(type);
      const at::Tensor target = target_N.narrow(0, begin, count).unsqueeze(1);
      at::Tensor log_p = at::log_softmax(at::matmul(x, weight.t()).to(sums), -1);
      loss.sub_(log_p.gather(1, target).sum());
      if (!needs_gradients) continue;
      const at::Tensor g = logit_gradients(std::move(log_p), target, rows).to(type);
      x_gradient.narrow(0, begin, count).copy_(at::matmul(g, weight));
      weight_gradient.add_(at::matmul(g.t(), x));
    }
    if (needs_gradients) context->save_for_backward({x_gradient, weight_gradient});
    return loss.div_(static_cast<double>(rows));
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    return {saved[0] * gradients[0], saved[1] * gradients[0], {}, {}, {}};
  }
};

}  // namespace

at::Tensor chunked_cross_entropy(const at::Tensor& x_NC, const at::Tensor& weight_VC,
                                 const at::Tensor& target_N, int chunks) {
  return ChunkedLoss::apply(x_NC, weight_VC, target_N, std::int64_t{chunks},
                            at::GradMode::is_enabled());
}

}  // namespace trireme::model
