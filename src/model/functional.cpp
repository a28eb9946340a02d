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

}  // namespace

at::Tensor dropout(const at::Tensor& x, double probability, const Context& context) {
  if (!context.training || probability == 0) return x;
  const at::Tensor mask = at::empty(x.sizes(), x.options().dtype(at::kBool).requires_grad(false))
                              .bernoulli_(1 - probability, context.generator);
  return Dropout::apply(x, mask, 1 / (1 - probability));
}

at::Tensor normal(at::IntArrayRef sizes, double deviation, at::Generator generator) {
  return at::empty(sizes, at::kFloat).normal_(0, deviation, std::move(generator));
}

}  // namespace trireme::model
