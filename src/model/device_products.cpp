// SPDX-License-Identifier: Apache-2.0
#include "device_products.h"

#include "device_kernels.h"
#include "weight_gradients.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace trireme::model {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// A gradient per row: [..., C] to [N, C].
at::Tensor rows_of(const at::Tensor& x) {
  return x.reshape({-1, x.size(-1)});
}

/// Parts of sums that came with a gradient, while this is what it was then.
class PartsOfGradient {
 public:
  PartsOfGradient() = default;
  PartsOfGradient(const at::Tensor& gradient, at::Tensor parts)
      : gradient_(gradient.getIntrusivePtr()),
        version_(gradient._version()),
        parts_(std::move(parts)) {}

  std::optional<at::Tensor> of(const at::Tensor& gradient) const {
    const bool is_it = parts_.defined() &&
                       gradient_._unsafe_get_target() == gradient.unsafeGetTensorImpl() &&
                       gradient._version() == version_;
    return is_it ? std::optional(parts_) : std::nullopt;
  }

 private:
  c10::weak_intrusive_ptr<c10::TensorImpl, at::UndefinedTensorImpl> gradient_{
      c10::intrusive_ptr<c10::TensorImpl, at::UndefinedTensorImpl>()};
  std::int64_t version_ = 0;
  at::Tensor parts_;
};

/// What a linear layer's backward gives; its edges are those of x, weight and bias, in this order.
struct LinearNode : torch::autograd::Node {
  SavedVariable x, weight;
  PartsOfGradient known;  ///< from above

  variable_list apply(variable_list&& gradients) override {
    const at::Tensor& dy = gradients[0];
    if (!dy.defined()) return variable_list(3);
    at::Tensor of_x, of_weight, of_bias;
    if (task_should_compute_output(0)) of_x = at::matmul(dy, weight.unpack());
    if (task_should_compute_output(1))
      of_weight = gradient_by_product(next_edge(1), rows_of(dy), rows_of(x.unpack()));
    if (task_should_compute_output(2)) of_bias = bias_gradient(dy);
    return {of_x, of_weight, of_bias};
  }

  void release_variables() override {
    x.reset_data();
    weight.reset_data();
    known = {};
  }

 protected:
  at::Tensor bias_gradient(const at::Tensor& dy) const {
    auto parts = known.of(dy);
    if (!parts) parts = device_column_parts(rows_of(dy));
    if (!parts) return rows_of(dy).sum(0);
    return gradient_by_parts(next_edge(2), *parts, 0, dy.size(-1));
  }
};

/// Of linear(gelu(h)); x is gelu(h), unless it is made again.
struct GeluLinearNode final : LinearNode {
  SavedVariable h;
  GeluKind kind;

  variable_list apply(variable_list&& gradients) override {
    const at::Tensor& dy = gradients[0];
    if (!dy.defined()) return variable_list(3);
    const bool of_weight_too = task_should_compute_output(1);
    at::Tensor of_h, hidden, of_weight, of_bias;
    if (task_should_compute_output(0)) {
      of_h = at::matmul(dy, weight.unpack());
      GeluGradient gradient =
          device_gelu_backward(of_h, h.unpack(), kind.is_tanh, of_weight_too && !kind.keeps_result);
      hidden = std::move(gradient.y);
      if (auto* const below = dynamic_cast<LinearNode*>(next_edge(0).function.get()))
        below->known = PartsOfGradient(of_h, std::move(gradient.parts));
    }
    if (of_weight_too) {
      if (kind.keeps_result) hidden = x.unpack();
      if (!hidden.defined()) hidden = device_gelu(h.unpack(), kind.is_tanh);
      of_weight = gradient_by_product(next_edge(1), rows_of(dy), rows_of(hidden));
    }
    if (task_should_compute_output(2)) of_bias = bias_gradient(dy);
    return {of_h, of_weight, of_bias};
  }

  void release_variables() override {
    LinearNode::release_variables();
    h.reset_data();
  }
};

template <class Node>
std::shared_ptr<Node> node_of(const at::Tensor& x, const at::Tensor& weight_OI,
                              const at::Tensor& bias_O) {
  const std::shared_ptr<Node> node(new Node, torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(x, weight_OI, bias_O));
  if (x.requires_grad()) node->weight = SavedVariable(weight_OI, /*is_output=*/false);
  return node;
}

/// The product, as what this node is of.
at::Tensor result_of(const std::shared_ptr<torch::autograd::Node>& node, const at::Tensor& x,
                     const at::Tensor& weight_OI, const at::Tensor& bias_O) {
  at::Tensor y;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    y = at::linear(x, weight_OI, bias_O);
  }
  torch::autograd::set_history(y, node);
  return y;
}

bool may_be_own(const at::Tensor& x, const at::Tensor& weight_OI, const at::Tensor& bias_O) {
  const auto is_fit = [](const at::Tensor& value) {
    return value.is_cuda() && value.scalar_type() == at::kBFloat16;
  };
  return is_fit(x) && is_fit(weight_OI) && (!bias_O.defined() || is_fit(bias_O));
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight_OI, const at::Tensor& bias_O) {
  if (!may_be_own(x, weight_OI, bias_O) ||
      !torch::autograd::compute_requires_grad(x, weight_OI, bias_O))
    return at::linear(x, weight_OI, bias_O);
  const auto node = node_of<LinearNode>(x, weight_OI, bias_O);
  if (weight_OI.requires_grad()) node->x = SavedVariable(x, /*is_output=*/false);
  return result_of(node, x, weight_OI, bias_O);
}

bool has_own_gelu_linear(const at::Tensor& h, const at::Tensor& weight_OI,
                         const at::Tensor& bias_O) {
  return may_be_own(h, weight_OI, bias_O) && has_device_gelu(h);
}

at::Tensor own_gelu_linear(at::Tensor h, const at::Tensor& weight_OI, const at::Tensor& bias_O,
                           GeluKind kind) {
  // h goes before there is room for the product, unless the backward needs it.
  const auto gelu = [&] { return device_gelu(std::exchange(h, {}).detach(), kind.is_tanh); };
  if (!torch::autograd::compute_requires_grad(h, weight_OI, bias_O))
    return at::linear(gelu(), weight_OI, bias_O);
  const auto node = node_of<GeluLinearNode>(h, weight_OI, bias_O);
  node->kind = kind;
  const bool keeps = kind.keeps_result && weight_OI.requires_grad();
  if (h.requires_grad() || !keeps) node->h = SavedVariable(h, /*is_output=*/false);
  const at::Tensor hidden = gelu();
  if (keeps) node->x = SavedVariable(hidden, /*is_output=*/false);
  return result_of(node, hidden, weight_OI, bias_O);
}

}  // namespace trireme::model
