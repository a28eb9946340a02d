// SPDX-License-Identifier: Apache-2.0
#include "device/device_products.h"

#include "device/device_kernels.h"
#include "device/node_pointer.h"
#include "device/weight_gradients.h"

#include "trireme/model/functional.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace trireme::model {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

/// Reshapes a gradient [..., C] to [N, C].
at::Tensor rows_of(const at::Tensor& x) {
  return x.dim() == 1 ? x.unsqueeze(0) : x.flatten(0, -2);
}

/// Partial column sums that came with a gradient; valid while it is unchanged.
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

/// An autograd node that contains linear layers.
struct Linears : torch::autograd::Node {
  PartsOfGradient known;  ///< from the node before in the backward

 protected:
  /// Valid once `sums` are launched.
  at::Tensor bias_gradient(const torch::autograd::Edge& to, const at::Tensor& dy,
                           PartSums& sums) const {
    auto parts = known.of(dy);
    if (!parts) parts = device_column_parts(rows_of(dy));
    if (!parts) return rows_of(dy).sum(0);
    return sums.add(to, *parts, 0, dy.size(-1));
  }
};

/// Null if the node is of another type.
Linears* linears_at(const torch::autograd::Edge& edge) {
  return dynamic_cast<Linears*>(edge.function.get());
}

/// Backward of a linear layer; its edges are those of x, weight and bias, in this order.
struct LinearNode : Linears {
  SavedVariable x, weight;
  bool has_columns = false;  ///< x is a column-major matrix

  variable_list apply(variable_list&& gradients) override {
    const at::Tensor& dy = gradients[0];
    if (!dy.defined()) return variable_list(3);
    at::Tensor of_x, of_weight, of_bias;
    PartSums sums;
    if (task_should_compute_output(0)) of_x = x_gradient(dy);
    if (task_should_compute_output(1))
      of_weight = gradient_by_product(next_edge(1), rows_of(dy), rows_of(x.unpack()),
                                      ProductTime::kMayWait);
    if (task_should_compute_output(2)) of_bias = bias_gradient(next_edge(2), dy, sums);
    sums.launch();
    return {of_x, of_weight, of_bias};
  }

  void release_variables() override {
    x.reset_data();
    weight.reset_data();
    known = {};
  }

 private:
  /// Multiplies as LibTorch does, whose gradient has the memory layout of x: on some processors the
  /// bits of a product and of its transpose differ.
  at::Tensor x_gradient(const at::Tensor& dy) {
    const at::Tensor weight_OI = weight.unpack();
    return has_columns ? at::mm(weight_OI.t(), dy.t()).t() : at::matmul(dy, weight_OI);
  }
};

/// Backward of linear(gelu(h)); x is gelu(h), unless it is recomputed.
struct GeluLinearNode final : LinearNode {
  SavedVariable h;
  GeluKind kind;

  variable_list apply(variable_list&& gradients) override {
    const at::Tensor& dy = gradients[0];
    if (!dy.defined()) return variable_list(3);
    const bool of_weight_too = task_should_compute_output(1);
    at::Tensor of_h, hidden, of_weight, of_bias;
    PartSums sums;
    if (task_should_compute_output(0)) {
      of_h = at::matmul(dy, weight.unpack());
      GeluGradient gradient =
          device_gelu_backward(of_h, h.unpack(), kind.is_tanh, of_weight_too && !kind.keeps_result);
      hidden = std::move(gradient.y);
      if (auto* const below = linears_at(next_edge(0)))
        below->known = PartsOfGradient(of_h, std::move(gradient.parts));
    }
    if (of_weight_too) {
      if (kind.keeps_result) hidden = x.unpack();
      if (!hidden.defined()) hidden = device_gelu(h.unpack(), kind.is_tanh);
      of_weight =
          gradient_by_product(next_edge(1), rows_of(dy), rows_of(hidden), ProductTime::kMayWait);
    }
    if (task_should_compute_output(2)) of_bias = bias_gradient(next_edge(2), dy, sums);
    sums.launch();
    return {of_h, of_weight, of_bias};
  }

  void release_variables() override {
    LinearNode::release_variables();
    h.reset_data();
  }
};

/// Backward of queries_keys_values.
struct ThirdsNode final : torch::autograd::Node {
  variable_list apply(variable_list&& gradients) override {
    const auto any = std::find_if(gradients.begin(), gradients.end(),
                                  [](const at::Tensor& one) { return one.defined(); });
    if (any == gradients.end()) return variable_list(1);
    variable_list thirds;
    for (const at::Tensor& one : gradients)
      thirds.push_back((one.defined() ? one : at::zeros_like(*any)).flatten(2));
    if (Linears* const below = linears_at(next_edge(0))) {
      if (auto joined = device_side_by_side(thirds[0], thirds[1], thirds[2])) {
        below->known = PartsOfGradient(joined->y, std::move(joined->parts));
        return {std::move(joined->y)};
      }
    }
    return {at::cat(thirds, -1)};
  }
};

/// Backward of own_norm_linears; its edges are those of x, the norm's weight and bias, then of each
/// linear layer's weight and bias.
struct NormLinearsNode final : Linears {
  SavedVariable x, norm_weight, norm_bias, means, scales, result;
  std::vector<SavedVariable> weights;
  double epsilon = 0;

  static std::size_t edge_of_weight(std::size_t linear) { return 3 + 2 * linear; }

  variable_list apply(variable_list&& gradients) override {
    variable_list found(num_outputs());
    PartSums sums;
    at::Tensor y = result.unpack();
    if (task_should_compute_output({{0, 3}})) through_norm(gradients, y, found, sums);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const std::size_t of_weight = edge_of_weight(i), of_bias = of_weight + 1;
      const at::Tensor& dy = gradients[i];
      if (!dy.defined()) continue;
      if (task_should_compute_output(of_weight)) {
        if (!y.defined())
          y = device_norm(x.unpack(), norm_weight.unpack(), norm_bias.unpack(), epsilon)->y;
        found[of_weight] = gradient_by_product(next_edge(of_weight), rows_of(dy), rows_of(y),
                                               ProductTime::kMayWait);
      }
      if (task_should_compute_output(of_bias))
        found[of_bias] = bias_gradient(next_edge(of_bias), dy, sums);
    }
    sums.launch();
    return found;
  }

  void release_variables() override {
    for (SavedVariable* const saved : {&x, &norm_weight, &norm_bias, &means, &scales, &result})
      saved->reset_data();
    for (SavedVariable& weight : weights) weight.reset_data();
    known = {};
  }

 private:
  /// Computes gradients of x and the norm's parameters, and, unless it was kept, y if a weight
  /// needs it.
  void through_norm(const variable_list& gradients, at::Tensor& y, variable_list& found,
                    PartSums& sums) const {
    at::Tensor of_y;
    bool is_again = false;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (!gradients[i].defined()) continue;
      if (of_y.defined())
        rows_of(of_y).addmm_(rows_of(gradients[i]), weights[i].unpack());
      else
        of_y = at::matmul(gradients[i], weights[i].unpack());
      is_again = is_again || (!y.defined() && task_should_compute_output(edge_of_weight(i)));
    }
    const at::Tensor& more = gradients.back();
    found[0] = more;
    if (!of_y.defined()) return;
    const NormTape tape{x.unpack(),
                        norm_weight.unpack(),
                        norm_bias.unpack(),
                        {{}, means.unpack(), scales.unpack()}};
    NormGradient gradient = device_norm_backward(
        of_y, tape, more, is_again ? NormResult::kAgain : NormResult::kNotAgain, /*into_dy=*/true);
    found[0] = std::move(gradient.of_x);
    if (is_again) y = std::move(gradient.y);
    auto [of_weight, of_bias] = norm_gradients_by_parts(*this, gradient.parts, of_y.size(-1), sums);
    found[1] = std::move(of_weight);
    found[2] = std::move(of_bias);
  }
};

template <class Node>
NodePointer<Node> node_of(const at::Tensor& x, const at::Tensor& weight_OI,
                          const at::Tensor& bias_O) {
  const NodePointer<Node> node = new_node<Node>();
  node->set_next_edges(torch::autograd::collect_next_edges(x, weight_OI, bias_O));
  if (x.requires_grad()) node->weight = SavedVariable(weight_OI, /*is_output=*/false);
  return node;
}

/// The product as at::linear computes it if the weight is trained. For an x that is not contiguous
/// it then multiplies rows; below autograd, where no weight seems to be trained, it would not.
at::Tensor product_of(const at::Tensor& x, const at::Tensor& weight_OI, const at::Tensor& bias_O) {
  if (x.dim() <= 2 || x.is_contiguous()) return at::linear(x, weight_OI, bias_O);
  const at::Tensor y =
      at::mm(rows_of(x), weight_OI.t()).unflatten(0, x.sizes().slice(0, x.dim() - 1));
  return bias_O.defined() ? y.add_(bias_O) : y;
}

/// Computes the product and attaches `node` as its backward.
at::Tensor result_of(const NodePointer<torch::autograd::Node>& node, const at::Tensor& x,
                     const at::Tensor& weight_OI, const at::Tensor& bias_O) {
  at::Tensor y;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    y = product_of(x, weight_OI, bias_O);
  }
  torch::autograd::set_history(y, node);
  return y;
}

/// Whether the weight has a gradient, which LinearNode may defer, and the tensors already have the
/// type in which they are multiplied: at::linear handles autocast, the node does not.
bool may_wait(const at::Tensor& x, const at::Tensor& weight_OI, const at::Tensor& bias_O) {
  const at::ScalarType type = product_type(x);
  const auto is_fit = [type](const at::Tensor& value) {
    return value.layout() == at::kStrided && value.scalar_type() == type;
  };
  return weight_OI.requires_grad() && is_fit(x) && is_fit(weight_OI) &&
         (!bias_O.defined() || is_fit(bias_O));
}

bool may_be_own(const at::Tensor& x, const at::Tensor& weight_OI, const at::Tensor& bias_O) {
  const auto is_fit = [](const at::Tensor& value) {
    return value.is_cuda() && value.scalar_type() == at::kBFloat16;
  };
  return is_fit(x) && is_fit(weight_OI) && (!bias_O.defined() || is_fit(bias_O));
}

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight_OI, const at::Tensor& bias_O) {
  const bool is_own = may_be_own(x, weight_OI, bias_O) || may_wait(x, weight_OI, bias_O);
  if (!is_own || !torch::autograd::compute_requires_grad(x, weight_OI, bias_O))
    return at::linear(x, weight_OI, bias_O);
  const auto node = node_of<LinearNode>(x, weight_OI, bias_O);
  if (weight_OI.requires_grad()) node->x = SavedVariable(x, /*is_output=*/false);
  node->has_columns = x.dim() == 2 && x.stride(0) == 1 && x.stride(1) == x.size(0);
  return result_of(node, x, weight_OI, bias_O);
}

bool has_own_norm_linears(const at::Tensor& x, const NormWeights& norm,
                          const std::vector<LinearWeights>& linears) {
  const auto is_own = [&](const LinearWeights& one) {
    return may_be_own(x, one.weight_OI, one.bias_O);
  };
  return std::all_of(linears.begin(), linears.end(), is_own) &&
         has_device_norm(x, norm.weight_C, norm.bias_C);
}

std::vector<at::Tensor> own_norm_linears(const at::Tensor& x, const NormWeights& norm,
                                         const std::vector<LinearWeights>& linears,
                                         bool keeps_result) {
  const Normed normed = device_norm(x, norm.weight_C, norm.bias_C, norm.epsilon).value();
  std::vector<at::Tensor> asked{x, norm.weight_C, norm.bias_C};
  const auto any = [](at::TensorList all) { return torch::autograd::compute_requires_grad(all); };
  const bool for_norm = any(asked);
  bool for_weights = false;
  for (const LinearWeights& one : linears) {
    for_weights = for_weights || any({one.weight_OI});
    asked.insert(asked.end(), {one.weight_OI, one.bias_O});
  }
  NodePointer<NormLinearsNode> node;
  if (any(asked)) {
    node = new_node<NormLinearsNode>();
    node->set_next_edges(torch::autograd::collect_next_edges(asked));
    node->epsilon = norm.epsilon;
    const bool keeps = keeps_result && for_weights;
    const auto save = [](SavedVariable& place, const at::Tensor& value) {
      if (value.defined()) place = SavedVariable(value, /*is_output=*/false);
    };
    if (for_norm || (for_weights && !keeps)) {
      save(node->x, x);
      save(node->norm_weight, norm.weight_C);
      save(node->norm_bias, norm.bias_C);
      save(node->means, normed.means);
      save(node->scales, normed.scales);
    }
    node->weights.resize(linears.size());
    for (std::size_t i = 0; for_norm && i < linears.size(); ++i)
      save(node->weights[i], linears[i].weight_OI);
    if (keeps) save(node->result, normed.y);
  }
  std::vector<at::Tensor> results;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    for (const LinearWeights& one : linears)
      results.push_back(at::linear(normed.y, one.weight_OI, one.bias_O));
    results.push_back(x.view(x.sizes()));
  }
  if (node) torch::autograd::set_history(results, node);
  return results;
}

std::vector<at::Tensor> queries_keys_values(const at::Tensor& x_BTC, std::int64_t heads) {
  const auto thirds_of = [&](const at::Tensor& x) {
    return x.unflatten(2, at::IntArrayRef{3, heads, -1}).unbind(2);
  };
  const bool is_own = x_BTC.is_cuda() && x_BTC.scalar_type() == at::kBFloat16;
  if (!is_own || !torch::autograd::compute_requires_grad(x_BTC)) return thirds_of(x_BTC);
  const NodePointer<ThirdsNode> node = new_node<ThirdsNode>();
  node->set_next_edges(torch::autograd::collect_next_edges(x_BTC));
  std::vector<at::Tensor> thirds;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    thirds = thirds_of(x_BTC);
  }
  torch::autograd::set_history(thirds, node);
  return thirds;
}

bool has_own_gelu_linear(const at::Tensor& h, const at::Tensor& weight_OI,
                         const at::Tensor& bias_O) {
  return may_be_own(h, weight_OI, bias_O) && has_device_gelu(h);
}

at::Tensor own_gelu_linear(at::Tensor h, const at::Tensor& weight_OI, const at::Tensor& bias_O,
                           GeluKind kind) {
  // h is freed before the product is allocated, unless the backward needs it.
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
