// Fixture of the tests of Trireme's own GPU kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu.h"

#include "trireme/runtime/warm_up.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <vector>

namespace trireme::model {

class GpuKernels : public device::Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (IsSkipped()) return;
    runtime::warm_up(cuda());  // also starts the autograd engine that layers need
    at::manual_seed(7);
  }
  at::Tensor drawn(at::IntArrayRef sizes, double scale = 1) const {
    return at::randn(sizes, at::TensorOptions(at::kFloat).device(on_gpu()))
        .mul_(scale)
        .to(at::kBFloat16);
  }
  /// An emulated GPU's operators run at CPU speed.
  std::int64_t rows(std::int64_t real) const { return is_emulated() ? 12 : real; }
  at::Tensor leaf(at::IntArrayRef sizes) const { return drawn(sizes).set_requires_grad(true); }
};

/// Gradients of the leaves, given those of the results.
inline std::vector<at::Tensor> gradients_of_all(const std::vector<at::Tensor>& results,
                                                const std::vector<at::Tensor>& of_results,
                                                const std::vector<at::Tensor>& leaves,
                                                bool keep_graph = false) {
  std::vector<torch::autograd::Edge> roots, edges;
  for (const at::Tensor& one : results) roots.push_back(torch::autograd::impl::gradient_edge(one));
  for (const at::Tensor& one : leaves) edges.push_back(torch::autograd::impl::gradient_edge(one));
  return torch::autograd::Engine::get_default_engine().execute(roots, of_results, keep_graph,
                                                               /*create_graph=*/false,
                                                               /*accumulate_grad=*/false, edges);
}

inline std::vector<at::Tensor> gradients(const at::Tensor& y, const at::Tensor& of_y,
                                         const std::vector<at::Tensor>& leaves,
                                         bool keep_graph = false) {
  return gradients_of_all({y}, {of_y}, leaves, keep_graph);
}

inline at::Tensor wide(const at::Tensor& x) {
  return x.detach().to(at::kDouble);
}
inline at::Tensor wide_leaf(const at::Tensor& x) {
  return wide(x).set_requires_grad(true);
}

/// Relative error of the whole tensor; `limit` is a few roundings to bfloat16.
inline void expect_near(const at::Tensor& found, const at::Tensor& expected, double limit = 4e-3) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  const double off =
      ((wide(found) - expected).norm() / expected.norm().clamp_min(1e-30)).item<double>();
  EXPECT_LE(off, limit);
}

}  // namespace trireme::model
