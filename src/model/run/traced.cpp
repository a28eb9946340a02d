// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/traced.h"

#include "run/run_layer.h"
#include "run/saved_tensors.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

namespace trireme::model {

using torch::autograd::impl::gradient_edge;

/// Takes the values out of a graph.
struct Tracing {
  Trace& trace;
  const Values& inputs;
  const at::Tensor& output;
  Values outside;  ///< parameters, buffers and target

  void take(const TracingScope::Saved& saved) const {
    const at::Tensor& tensor = saved.tensor;
    if (!tensor.has_storage()) return;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (tensor.storage().is_alias_of(inputs[i].storage())) return take_out(saved, i);
    if (tensor.storage().is_alias_of(output.storage()))
      return take_out(saved, Trace::View::kOutput);
    if (!shares_storage(tensor, outside)) trace.kept_.push_back(tensor);
  }

  void take_out(const TracingScope::Saved& saved, std::size_t of) const {
    saved.place->clear();
    trace.views_.push_back({.place = saved.place,
                            .of = of,
                            .sizes = saved.tensor.sizes().vec(),
                            .strides = saved.tensor.strides().vec(),
                            .offset = saved.tensor.storage_offset()});
  }

  static Traced run(Layer& layer, const Values& inputs, const Context& context, Precision precision,
                    const std::vector<bool>& wants_gradient);
};

namespace {

Values leaves_of(const Values& inputs, const std::vector<bool>& wants_gradient) {
  Values leaves;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    leaves.push_back(inputs[i].detach());
    leaves.back().set_requires_grad(wants_gradient.at(i));
  }
  return leaves;
}

}  // namespace

Traced traced_forward(Layer& layer, const Values& inputs, const Context& context,
                      Precision precision, const std::vector<bool>& wants_gradient) {
  return Tracing::run(layer, inputs, context, precision, wants_gradient);
}

Traced Tracing::run(Layer& layer, const Values& inputs, const Context& context, Precision precision,
                    const std::vector<bool>& wants_gradient) {
  Traced traced;
  Trace& trace = traced.trace;
  trace.leaves_ = leaves_of(inputs, wants_gradient);
  const at::AutoGradMode grad(true);
  TracingScope scope;
  Values outputs = run_layer(layer, trace.leaves_, context, precision);
  if (outputs.size() != 1)
    throw InputError(
        concat("forward returns ", outputs.size(), " tensors; a layer of a graph returns one"));
  scope.require_unchanged();
  if (outputs[0].requires_grad()) trace.root_ = gradient_edge(outputs[0]);
  traced.output = outputs[0].detach();
  outputs.clear();
  const Tracing tracing{trace, inputs, traced.output, held_by(layer, context)};
  for (const TracingScope::Saved& saved : scope.take()) tracing.take(saved);
  for (const at::Tensor& leaf : trace.leaves_) let_go_of_memory(leaf);
  return traced;
}

bool Trace::reads_input(std::size_t input) const {
  return std::any_of(views_.begin(), views_.end(),
                     [input](const View& view) { return view.of == input; });
}

bool Trace::reads_output() const {
  return reads_input(View::kOutput);
}

std::vector<c10::Storage> Trace::kept() const {
  std::vector<c10::Storage> storages;
  for (const at::Tensor& tensor : kept_) {
    const auto is_same = [&](const c10::Storage& known) {
      return known.is_alias_of(tensor.storage());
    };
    if (std::none_of(storages.begin(), storages.end(), is_same))
      storages.push_back(tensor.storage());
  }
  return storages;
}

at::Tensor Trace::backward(const Given& given, std::size_t input,
                           const std::vector<Parameter>& parameters) const {
  ensure(root_.is_valid(), "what has no backward is not asked for gradients");
  const at::NoGradGuard no_grad;
  for (const View& view : views_) {
    const at::Tensor& value = view.of == View::kOutput ? given.output : given.inputs.at(view.of);
    ensure(value.defined(), "a backward is given what it reads");
    view.place->set(at::empty({0}, value.options())
                        .set_(value.storage(), view.offset, view.sizes, view.strides));
  }
  const at::Tensor& leaf = leaves_.at(input);
  std::vector<torch::autograd::Edge> only_to;
  if (leaf.requires_grad()) only_to.push_back(gradient_edge(leaf));
  for (const Parameter& parameter : parameters)
    if (parameter.is_trained) only_to.push_back(gradient_edge(parameter.value));
  if (!only_to.empty()) {
    run_backward({.roots = {root_},
                  .gradients = {given.gradient},
                  .keeps_graph = true,
                  .only_to = std::move(only_to)});
  }
  for (const View& view : views_) view.place->clear();
  at::Tensor result = leaf.grad();
  leaf.mutable_grad().reset();
  return result;
}

}  // namespace trireme::model
