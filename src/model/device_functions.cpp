// SPDX-License-Identifier: Apache-2.0
#include "device_functions.h"

#include "device_kernels.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <tuple>

namespace trireme::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A gradient per row: [..., C] to [N, C].
at::Tensor rows_of(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

struct Linear : torch::autograd::Function<Linear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight_OI, const at::Tensor& bias_O) {
    context->save_for_backward({weight_OI.requires_grad() ? x : at::Tensor(),
                                x.requires_grad() ? weight_OI : at::Tensor()});
    return at::linear(x, weight_OI, bias_O);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight_OI = saved[1];
    const at::Tensor dy_NO = rows_of(gradients[0]);
    at::Tensor of_x, of_weight;
    if (weight_OI.defined()) of_x = at::matmul(gradients[0], weight_OI);
    if (x.defined()) of_weight = at::mm(dy_NO.t(), rows_of(x));
    const auto sums = device_column_sums(dy_NO);
    return {of_x, of_weight, sums ? *sums : dy_NO.sum(0)};
  }
};

struct LayerNorm : torch::autograd::Function<LayerNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight_C, const at::Tensor& bias_C, double epsilon) {
    const auto [y, means, scales] =
        at::native_layer_norm(x, {weight_C.numel()}, weight_C, bias_C, epsilon);
    context->save_for_backward({x, weight_C, bias_C, means, scales});
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight_C = saved[1], &bias_C = saved[2], &means = saved[3],
                     &scales = saved[4];
    const at::Tensor dy = gradients[0].contiguous();
    if (auto own = device_layer_norm_backward(dy, x, means, scales, weight_C))
      return {own->x, own->weight, own->bias, {}};
    const auto [of_x, of_weight, of_bias] = at::native_layer_norm_backward(
        dy, x, {weight_C.numel()}, means, scales, weight_C, bias_C, {true, true, true});
    return {of_x, of_weight, of_bias, {}};
  }
};

/// On a GPU, in bfloat16 alone, with a bias that is trained.
bool may_have_kernels(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const auto is_one = [](const at::Tensor& value) {
    return value.defined() && value.is_cuda() && value.scalar_type() == at::kBFloat16;
  };
  return at::GradMode::is_enabled() && is_one(x) && is_one(weight) && is_one(bias) &&
         bias.requires_grad();
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight_OI, const at::Tensor& bias_O) {
  if (may_have_kernels(x, weight_OI, bias_O)) return Linear::apply(x, weight_OI, bias_O);
  return at::linear(x, weight_OI, bias_O);
}

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight_C, const at::Tensor& bias_C,
                      double epsilon) {
  if (may_have_kernels(x, weight_C, bias_C) && x.requires_grad())
    return LayerNorm::apply(x, weight_C, bias_C, epsilon);
  return at::layer_norm(x, {weight_C.numel()}, weight_C, bias_C, epsilon);
}

}  // namespace trireme::model
