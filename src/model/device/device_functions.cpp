// SPDX-License-Identifier: Apache-2.0
#include "device/device_functions.h"

#include "device/device_kernels.h"
#include "device/weight_gradients.h"

#include "trireme/core/error.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/function.h>

namespace trireme::model {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Returns y, and x unchanged. An RMS norm has no bias.
struct Norm : torch::autograd::Function<Norm> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const at::Tensor& weight_C,
                               const std::optional<at::Tensor>& /*bias_C*/, const Normed& normed) {
    context->save_for_backward({x, weight_C, normed.means, normed.scales});
    context->set_materialize_grads(false);
    return {normed.y, x};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &dy = gradients[0], &more = gradients[1];
    if (!dy.defined()) return {more, {}, {}, {}};
    const NormTape tape{saved[0], saved[1], {}, {{}, saved[2], saved[3]}};
    const NormGradient found =
        device_norm_backward(dy.contiguous(), tape, more, NormResult::kNotAgain, /*into_dy=*/false);
    PartSums sums;
    const auto [of_weight, of_bias] = norm_gradients_by_parts(*torch::autograd::get_current_node(),
                                                              found.parts, saved[1].numel(), sums);
    sums.launch();
    return {found.of_x, of_weight, of_bias, {}};
  }
};

NormAndInput joined(const at::Tensor& x, const at::Tensor& weight_C,
                    const std::optional<at::Tensor>& bias_C, const Normed& normed) {
  if (!at::GradMode::is_enabled()) return {normed.y, x};
  const variable_list both = Norm::apply(x, weight_C, bias_C, normed);
  return {both.at(0), both.at(1)};
}

struct Turned : torch::autograd::Function<Turned> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, std::int64_t heads,
                            const at::Tensor& cosines, const at::Tensor& sines,
                            const at::Tensor& turned) {
    context->save_for_backward({cosines, sines});
    return turned.view({x.size(0), x.size(1), heads, -1});
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor dy = gradients[0].contiguous();
    const auto dx = device_turn(dy.flatten(2), saved[0], saved[1], dy.size(2), /*back=*/true);
    ensure(dx.has_value(), "gradients are as their values");
    return {*dx, {}, {}, {}, {}};
  }
};

}  // namespace

NormAndInput layer_norm_with_input(const at::Tensor& x, const at::Tensor& weight_C,
                                   const at::Tensor& bias_C, double epsilon) {
  const auto normed = device_norm(x, weight_C, bias_C, epsilon);
  if (!normed) return {at::layer_norm(x, {weight_C.numel()}, weight_C, bias_C, epsilon), x};
  return joined(x, weight_C, bias_C, *normed);
}

std::optional<NormAndInput> own_rms_norm(const at::Tensor& x, const at::Tensor& weight_C,
                                         double epsilon) {
  const auto normed = device_norm(x, weight_C, /*bias_C=*/{}, epsilon);
  if (!normed) return std::nullopt;
  return joined(x, weight_C, std::nullopt, *normed);
}

std::optional<at::Tensor> own_turned(const at::Tensor& x, std::int64_t heads,
                                     const at::Tensor& cos_T1I, const at::Tensor& sin_T1I) {
  const auto turned = device_turn(x, cos_T1I, sin_T1I, heads, /*back=*/false);
  if (!turned) return std::nullopt;
  return Turned::apply(x, heads, cos_T1I, sin_T1I, *turned);
}

}  // namespace trireme::model
