// SPDX-License-Identifier: Apache-2.0
#include "weight_gradients.h"

#include "device_kernels.h"

#include "trireme/model/gradient_sums.h"

#include <ATen/ATen.h>

#include <utility>

namespace trireme::model {

at::Tensor gradient_by_product(const torch::autograd::Edge& to, const at::Tensor& dy_NO,
                               const at::Tensor& x_NI) {
  const bool is_added = GradientSums::add_along(to, [&](at::Tensor& sum, bool is_first) {
    return device_add_product(sum, dy_NO, x_NI, is_first);
  });
  return is_added ? at::Tensor() : at::mm(dy_NO.t(), x_NI);
}

at::Tensor gradient_by_parts(const torch::autograd::Edge& to, const at::Tensor& parts,
                             std::int64_t begin, std::int64_t count) {
  const bool is_added = GradientSums::add_along(to, [&](at::Tensor& sum, bool is_first) {
    device_sum_parts(sum, parts, begin, is_first);
    return true;
  });
  if (is_added) return {};
  at::Tensor gradient = at::empty({count}, parts.options().dtype(at::kBFloat16));
  device_sum_parts(gradient, parts, begin, /*is_first=*/true);
  return gradient;
}

NormParameterGradients norm_gradients_by_parts(const torch::autograd::Node& node,
                                               const at::Tensor& parts, std::int64_t width) {
  const auto gradient = [&](std::size_t edge, std::int64_t begin) {
    const bool is_asked = edge < node.num_outputs() && node.task_should_compute_output(edge);
    return is_asked ? gradient_by_parts(node.next_edge(edge), parts, begin, width) : at::Tensor();
  };
  at::Tensor of_weight = gradient(1, 0);
  return {std::move(of_weight), gradient(2, width)};
}

}  // namespace trireme::model
