// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/taped.h"

#include "trireme/core/error.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

namespace trireme::model {
namespace {

Values run(Layer& layer, const Values& input, const Context& context, Precision precision);
/// The members that carry gradients, as leaves of a new tape.
Values leaves_of(const Values& input, InputGradient wanted);

}  // namespace

AutocastScope::AutocastScope(Precision precision) : on_(precision == Precision::kBfloat16) {
  if (!on_) return;
  before_ = at::autocast::is_autocast_enabled(at::kCPU);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::set_autocast_cache_enabled(false);
}

AutocastScope::~AutocastScope() {
  if (on_) at::autocast::set_autocast_enabled(at::kCPU, before_);
}

Values untaped_forward(Layer& layer, const Values& input, const Context& context,
                       Precision precision) {
  const at::NoGradGuard no_grad;
  return run(layer, input, context, precision);
}

Tape taped_forward(Layer& layer, const Values& input, const Context& context, Precision precision,
                   InputGradient input_gradient) {
  Tape tape{.inputs = leaves_of(input, input_gradient), .roots = {}, .outputs = {}};
  const at::AutoGradMode grad(true);
  for (const at::Tensor& output : run(layer, tape.inputs, context, precision)) {
    if (output.requires_grad()) tape.roots.push_back(torch::autograd::impl::gradient_edge(output));
    tape.outputs.push_back(output.detach());
  }
  return tape;
}

Values backward(Tape tape, const Values& gradients) {
  tape.outputs.clear();
  ensure(gradients.size() == tape.roots.size(), "one gradient per floating output");
  torch::autograd::Engine::get_default_engine().execute(tape.roots, gradients, /*keep_graph=*/false,
                                                        /*create_graph=*/false,
                                                        /*accumulate_grad=*/true);
  Values input_gradients;
  for (const at::Tensor& leaf : tape.inputs) {
    if (!leaf.requires_grad()) continue;
    input_gradients.push_back(leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf));
  }
  return input_gradients;
}

namespace {

Values run(Layer& layer, const Values& input, const Context& context, Precision precision) {
  const AutocastScope autocast(precision);
  return layer.forward(input, context);
}

Values leaves_of(const Values& input, InputGradient wanted) {
  Values leaves;
  for (const at::Tensor& value : input) {
    at::Tensor leaf = value.detach();
    if (wanted == InputGradient::kNeeded && leaf.is_floating_point()) leaf.set_requires_grad(true);
    leaves.push_back(std::move(leaf));
  }
  return leaves;
}

}  // namespace
}  // namespace trireme::model
