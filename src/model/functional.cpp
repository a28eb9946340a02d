// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/functional.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace trireme::model {
namespace {

/// at::dropout takes no generator and keeps a float per value; this one keeps a bool. Forward and
/// backward are the same product x * mask * scale, for which LibTorch has an operator.
struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& mask, double scale) {
    context->save_for_backward({mask});
    context->saved_data["scale"] = scale;
    return at::native_dropout_backward(x, mask, scale);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor mask = context->get_saved_variables()[0];
    return {
        at::native_dropout_backward(gradients[0], mask, context->saved_data["scale"].toDouble()),
        {},
        {}};
  }
};

/// y = x r w with r = 1 / sqrt(mean(x^2) + epsilon), row by row.
struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, double epsilon) {
    const at::Tensor scale = (x * x).mean(-1, /*keepdim=*/true).add_(epsilon).rsqrt_();
    context->save_for_backward({x, weight, scale});
    return (x * scale).mul_(weight);
  }
  /// With h = dy w: dx = r h - r^3 x mean(h x), dw = the sum of dy x r over rows.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &scale = saved[2], &dy = gradients[0];
    const at::Tensor unit = x * scale;
    const at::Tensor weight_gradient = (dy * unit).flatten(0, -2).sum(0);
    at::Tensor h = dy * weight;
    const at::Tensor along = (h * unit).mean(-1, /*keepdim=*/true);
    return {(h - unit * along).mul_(scale), weight_gradient, {}};
  }
};

struct SwiGlu : torch::autograd::Function<SwiGlu> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& gate,
                            const at::Tensor& up) {
    context->save_for_backward({gate, up});
    return at::silu(gate).mul_(up);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1], &dy = gradients[0];
    return {at::silu_backward(dy * up, gate), at::silu(gate).mul_(dy)};
  }
};

}  // namespace

at::Tensor dropout(const at::Tensor& x, double probability, const Context& context) {
  if (!context.training || probability == 0) return x;
  const at::Tensor mask = at::empty(x.sizes(), x.options().dtype(at::kBool).requires_grad(false))
                              .bernoulli_(1 - probability, context.generator);
  return Dropout::apply(x, mask, 1 / (1 - probability));
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return RmsNorm::apply(x, weight, epsilon);
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return SwiGlu::apply(gate, up);
}

at::Tensor normal(at::IntArrayRef sizes, double deviation, at::Generator generator) {
  return at::empty(sizes, at::kFloat).normal_(0, deviation, std::move(generator));
}

}  // namespace trireme::model
