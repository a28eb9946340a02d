// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/taped.h"

#include "run/run_layer.h"
#include "run/saved_tensors.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/model/foreign.h"
#include "trireme/model/given.h"
#include "trireme/model/gradient_sums.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <optional>

namespace trireme::model {
namespace {

/// The members that carry gradients, as leaves of a new tape.
Values leaves_of(const Values& input, InputGradient wanted);
/// Where a backward begins.
std::vector<torch::autograd::Edge> roots_of(const Values& outputs);
Values detached(const Values& values);
/// The storages, among those that the forward saved and returned, that only the tape holds.
std::vector<c10::Storage> own_storages(NotingScope& saved, const Tape& tape, const Layer& layer,
                                       const Context& context);

/// While an object lives, backwards defer products to `into`; the deferral ends even after one that
/// threw.
class DeferringScope {
 public:
  DeferringScope(const std::vector<GradientSums*>& sums, PendingProducts& into) : sums_(sums) {
    for (GradientSums* const each : sums_) each->defer_products(&into);
  }
  ~DeferringScope() {
    for (GradientSums* const each : sums_) each->defer_products(nullptr);
  }
  DeferringScope(const DeferringScope&) = delete;
  DeferringScope& operator=(const DeferringScope&) = delete;

 private:
  const std::vector<GradientSums*>& sums_;
};

}  // namespace

AutocastScope::AutocastScope(Precision precision, c10::DeviceType device)
    : on_(precision == Precision::kBfloat16), device_(device) {
  if (!on_) return;
  before_ = at::autocast::is_autocast_enabled(device_);
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, at::kBFloat16);
  at::autocast::set_autocast_cache_enabled(false);
}

AutocastScope::~AutocastScope() {
  if (on_) at::autocast::set_autocast_enabled(device_, before_);
}

Values untaped_forward(Layer& layer, const Values& input, const Context& context,
                       Precision precision) {
  const at::NoGradGuard no_grad;
  return run_layer(layer, input, context, precision);
}

Tape taped_forward(Layer& layer, const Values& input, const Context& context, Precision precision,
                   InputGradient input_gradient, TapeUse use) {
  const Values leaves = leaves_of(input, input_gradient);
  const at::AutoGradMode grad(true);
  std::optional<NotingScope> saved;
  if (use == TapeUse::kMayMove) saved.emplace();
  const Values outputs = run_layer(layer, leaves, context, precision);
  Tape tape{.inputs = leaves,
            .leaves = leaves,
            .roots = roots_of(outputs),
            .outputs = detached(outputs),
            .gives_zeros = input_gradient == InputGradient::kZeros};
  if (saved) tape.storages = own_storages(*saved, tape, layer, context);
  return tape;
}

Outlined outlined_forward(Layer& layer, const Values& input, const Context& context,
                          Precision precision, InputGradient input_gradient) {
  Outline outline{.leaves = leaves_of(input, input_gradient),
                  .roots = {},
                  .places = {},
                  .gives_zeros = input_gradient == InputGradient::kZeros};
  const at::AutoGradMode grad(true);
  OutlineScope scope;
  const Values outputs = run_layer(layer, outline.leaves, context, precision);
  outline.roots = roots_of(outputs);
  scope.require_unchanged();
  outline.places = scope.take();
  for (const at::Tensor& leaf : outline.leaves) let_go_of_memory(leaf);
  return {.outputs = detached(outputs), .outline = std::move(outline)};
}

Tape retape(Outline outline, Layer& layer, const Values& input, const Context& context,
            Precision precision) {
  ensure(outline.leaves.size() == input.size(), "a layer is run again on what it was run on");
  Tape tape{.inputs = detached(input),
            .leaves = std::move(outline.leaves),
            .roots = std::move(outline.roots),
            .outputs = {},
            .gives_zeros = outline.gives_zeros};
  for (std::size_t i = 0; i < input.size(); ++i)
    tape.inputs[i].set_requires_grad(tape.leaves[i].requires_grad());
  if (outline.places.empty()) return tape;
  const at::AutoGradMode grad(true);
  FillingScope scope(outline.places);
  try {
    run_layer(layer, tape.inputs, context, precision);
  } catch (const EarlyEnd&) {
    return tape;
  }
  throw InputError(concat("forward was run again and saved ", scope.filled(),
                          " tensors instead of ", outline.places.size(),
                          ": what it does must not depend on anything but its input, its "
                          "parameters and the context"));
}

SplitBackward backward_input(Tape tape, const Values& gradients,
                             const std::vector<GradientSums*>& sums) {
  SplitBackward split;
  const DeferringScope deferring(sums, split.pending);
  split.input_gradients = backward(std::move(tape), gradients);
  return split;
}

Values backward(Tape tape, const Values& gradients) {
  // What only the graph holds is freed as the engine passes it.
  tape.outputs.clear();
  tape.storages.clear();
  ensure(gradients.size() == tape.roots.size(), "one gradient per floating output");
  std::vector<torch::autograd::Edge> roots;
  Values of_roots;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!tape.roots[i].is_valid()) continue;
    roots.push_back(tape.roots[i]);
    of_roots.push_back(gradients[i]);
  }
  tape.roots.clear();
  if (!roots.empty()) run_backward({.roots = roots, .gradients = of_roots});
  Values input_gradients;
  for (const at::Tensor& leaf : tape.leaves) {
    const bool wants_zeros = tape.gives_zeros && leaf.is_floating_point();
    if (!leaf.requires_grad() && !wants_zeros) continue;
    input_gradients.push_back(leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf));
  }
  return input_gradients;
}

namespace {

Values leaves_of(const Values& input, InputGradient wanted) {
  Values leaves;
  for (const at::Tensor& value : input) {
    at::Tensor leaf = value.detach();
    if (wanted == InputGradient::kNeeded && leaf.is_floating_point()) leaf.set_requires_grad(true);
    leaves.push_back(std::move(leaf));
  }
  return leaves;
}

std::vector<torch::autograd::Edge> roots_of(const Values& outputs) {
  std::vector<torch::autograd::Edge> roots;
  for (const at::Tensor& output : outputs) {
    if (output.requires_grad()) {
      roots.push_back(torch::autograd::impl::gradient_edge(output));
    } else if (output.is_floating_point()) {
      roots.emplace_back();
    }
  }
  return roots;
}

Values detached(const Values& values) {
  Values result;
  for (const at::Tensor& value : values) result.push_back(value.detach());
  return result;
}

std::vector<c10::Storage> own_storages(NotingScope& saved, const Tape& tape, const Layer& layer,
                                       const Context& context) {
  for (const at::Tensor& output : tape.outputs) saved.note(output.storage());
  Values others = tape.inputs;
  for (const at::Tensor& held : held_by(layer, context)) others.push_back(held);
  const c10::DeviceType device = device_of(tape.inputs);
  std::vector<c10::Storage> storages = saved.take();
  std::erase_if(storages, [&](const c10::Storage& storage) {
    // Some GPU operators save numbers on the host (the seeds of fused attention).
    return storage.device_type() != device ||
           std::any_of(others.begin(), others.end(), [&](const at::Tensor& other) {
             return other.storage().is_alias_of(storage);
           });
  });
  return storages;
}

}  // namespace
}  // namespace trireme::model
