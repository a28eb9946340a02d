// SPDX-License-Identifier: Apache-2.0
#include "device/weight_gradients.h"

#include "device/gradient_sum.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace trireme::model {

at::Tensor gradient_by_product(const torch::autograd::Edge& to, const at::Tensor& dy_NO,
                               const at::Tensor& x_NI, ProductTime time) {
  if (GradientSum* const sum = GradientSum::along(to)) {
    if (time == ProductTime::kMayWait && sum->leave_product(dy_NO, x_NI)) return {};
    if (sum->add_product_by_device(dy_NO, x_NI)) return {};
  }
  return at::mm(dy_NO.t(), x_NI);
}

at::Tensor PartSums::add(const torch::autograd::Edge& to, const at::Tensor& parts,
                         std::int64_t begin, std::int64_t count) {
  if (GradientSum* const sum = GradientSum::along(to)) {
    const auto is_its = [&](const PartSum& one) { return one.sums.is_same(sum->value()); };
    if (std::any_of(all_.begin(), all_.end(), is_its)) launch();  // add the earlier part first
    all_.push_back(sum->by_parts(parts, begin));
    return {};
  }
  at::Tensor gradient = at::empty({count}, parts.options().dtype(at::kBFloat16));
  all_.push_back({gradient, parts, begin, /*is_first=*/true});
  return gradient;
}

void PartSums::launch() {
  if (!all_.empty()) device_sum_parts(std::exchange(all_, {}));
}

NormParameterGradients norm_gradients_by_parts(const torch::autograd::Node& node,
                                               const at::Tensor& parts, std::int64_t width,
                                               PartSums& sums) {
  const auto gradient = [&](std::size_t edge, std::int64_t begin) {
    const bool is_asked = edge < node.num_outputs() && node.task_should_compute_output(edge);
    return is_asked ? sums.add(node.next_edge(edge), parts, begin, width) : at::Tensor();
  };
  at::Tensor of_weight = gradient(1, 0);
  return {std::move(of_weight), gradient(2, width)};
}

}  // namespace trireme::model
