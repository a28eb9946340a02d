// Layer and RMS norms by the kernels themselves, run on the host, against LibTorch in double.
// SPDX-License-Identifier: Apache-2.0
#include "host_kernels.h"

#include <cmath>
#include <utility>
#include <vector>

namespace trireme::kernels {
namespace {

class NormKernels : public InEitherOrder {};
INSTANTIATE_TEST_SUITE_P(Warps, NormKernels,
                         testing::Values(host::Order::kUpwards, host::Order::kDownwards), name_of);

using NormKernel = decltype(&host::row_norm);
struct NormCase {
  std::int64_t rows, columns;
  NormKernel kernel;
  unsigned threads;
};

/// A block per row, or a warp.
std::vector<NormCase> norm_cases() {
  constexpr unsigned kWarps = 4 * 32;
  std::vector<NormCase> all{
      {1, 8, host::row_norm, 32}, {7, 264, host::row_norm, 64}, {5, 2056, host::row_norm, 288}};
  const std::vector<std::pair<std::int64_t, NormKernel>> by_warps{
      {8, host::row_norm_2},    {512, host::row_norm_2},  {520, host::row_norm_3},
      {1016, host::row_norm_4}, {1280, host::row_norm_5}, {1600, host::row_norm_7},
      {2048, host::row_norm_8}};
  for (const auto& [columns, kernel] : by_warps) all.push_back({5, columns, kernel, kWarps});
  return all;
}

TEST_P(NormKernels, LayerNormsAndTheirGradientsAreLibTorchs) {
  for (const auto& [rows, columns, kernel, threads_of_norm] : norm_cases()) {
    SCOPED_TRACE(columns);
    const auto terms = static_cast<double>(10 * rows);
    const at::Tensor x = drawn({rows, columns}, 3) + 1, dy = drawn({rows, columns}),
                     more = drawn({rows, columns}), weight = drawn({columns}),
                     bias = drawn({columns});
    const auto wide = [](const at::Tensor& value) { return value.to(at::kDouble); };
    const auto [y, means, scales] =
        at::native_layer_norm(wide(x), {columns}, wide(weight), wide(bias), 1e-5);
    const auto [of_x, of_weight, of_bias] = at::native_layer_norm_backward(
        wide(dy), wide(x), {columns}, means, scales, wide(weight), wide(bias), {true, true, true});
    const auto threads = static_cast<unsigned>((columns / 8 + 31) / 32 * 32);
    for (const unsigned blocks : kernel == host::row_norm ? std::vector{1U, 4U} : std::vector{1U}) {
      if (blocks > static_cast<unsigned>(rows)) continue;
      const at::Tensor found = at::empty_like(x), mean = at::empty({rows}),
                       scale = at::empty({rows});
      host::run({blocks}, threads_of_norm, kernel, bits(x), bits(weight), bits(bias), bits(found),
                floats(mean), floats(scale), Index{rows}, Index{columns}, 1e-5F);
      expect_near(found, y, 10);
      EXPECT_TRUE(at::allclose(wide(mean), means.flatten(), 1e-5, 1e-6));
      EXPECT_TRUE(at::allclose(wide(scale), scales.flatten(), 1e-5, 1e-6));
      for (const bool has_more : {false, true}) {
        const at::Tensor dx = at::empty_like(x), parts = at::full({blocks, 2 * columns}, NAN);
        host::run({blocks}, threads, host::row_norm_backward, bits(dy), bits(x), floats(mean),
                  floats(scale), bits(weight), nullptr, has_more ? bits(more) : nullptr, bits(dx),
                  nullptr, floats(parts), Index{rows}, Index{columns});
        expect_near(dx, has_more ? of_x + wide(more) : of_x, 10);
        expect_near(summed(parts, 0, columns), of_weight, terms);
        expect_near(summed(parts, columns, columns), of_bias, terms);

        // In place, with the result again.
        const at::Tensor mine = dy.clone(), again = at::zeros_like(x),
                         same = at::full_like(parts, NAN);
        host::run({blocks}, threads, host::row_norm_backward_again, bits(mine), bits(x),
                  floats(mean), floats(scale), bits(weight), bits(bias),
                  has_more ? bits(more) : nullptr, bits(mine), bits(again), floats(same),
                  Index{rows}, Index{columns});
        EXPECT_TRUE(at::equal(again, found));
        EXPECT_TRUE(at::equal(mine, dx));
        EXPECT_TRUE(at::equal(same, parts));
      }
    }
  }
}

TEST_P(NormKernels, RmsNormsHaveNoMeanAndNoBias) {
  for (const auto& [rows, columns] : {std::pair{5, 72}, {9, 600}}) {
    SCOPED_TRACE(rows);
    const at::Tensor x = drawn({rows, columns}, 3) + 1, dy = drawn({rows, columns}),
                     weight = drawn({columns});
    const at::Tensor wide_x = x.to(at::kDouble), wide_dy = dy.to(at::kDouble),
                     wide_weight = weight.to(at::kDouble);
    const at::Tensor r = (wide_x * wide_x).mean(-1, true).add(1e-5).rsqrt(), h = wide_x * r;
    const at::Tensor g = wide_dy * wide_weight;
    const auto threads = static_cast<unsigned>((columns / 8 + 31) / 32 * 32);

    const at::Tensor y = at::empty_like(x), scale = at::empty({rows});
    for (const auto& [kernel, threads_of_norm] :
         {std::pair<NormKernel, unsigned>{host::row_norm, threads}, {host::row_norm_3, 128}}) {
      host::run({2}, threads_of_norm, kernel, bits(x), bits(weight), nullptr, bits(y), nullptr,
                floats(scale), Index{rows}, Index{columns}, 1e-5F);
      expect_near(y, h * wide_weight, 10);
      EXPECT_TRUE(at::allclose(scale.to(at::kDouble), r.flatten(), 1e-5, 1e-6));
    }

    const at::Tensor dx = at::empty_like(x), parts = at::full({2, columns}, NAN);
    host::run({2}, threads, host::row_norm_backward, bits(dy), bits(x), nullptr, floats(scale),
              bits(weight), nullptr, nullptr, bits(dx), nullptr, floats(parts), Index{rows},
              Index{columns});
    expect_near(dx, (g - h * (g * h).mean(-1, true)) * r, 10);
    expect_near(summed(parts, 0, columns), (wide_dy * h).sum(0), 50);

    const at::Tensor again = at::zeros_like(x);
    host::run({2}, threads, host::row_norm_backward_again, bits(dy), bits(x), nullptr,
              floats(scale), bits(weight), nullptr, nullptr, bits(dx), bits(again), floats(parts),
              Index{rows}, Index{columns});
    EXPECT_TRUE(at::equal(again, y));
  }
}

}  // namespace
}  // namespace trireme::kernels
