// The kernels themselves, run by threads of the host, against LibTorch in double.
// SPDX-License-Identifier: Apache-2.0
#include "host_block.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace trireme::kernels {
namespace host {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include "kernels.cu"
#pragma GCC diagnostic pop
}  // namespace host

namespace {

using Bf16 = std::uint16_t;
using Index = long long;

/// One rounding to bfloat16, relative.
constexpr double kRounding = 1.0 / 256;

at::Tensor drawn(at::IntArrayRef sizes, double scale = 1) {
  static at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(7);
  return at::randn(sizes, generator).mul_(scale).to(at::kBFloat16);
}

Bf16* bits(const at::Tensor& x) {
  return static_cast<Bf16*>(x.mutable_data_ptr());
}
float* floats(const at::Tensor& x) {
  return x.mutable_data_ptr<float>();
}

/// Up to a rounding, and to what sums of terms as large as `terms` are off by in float32.
void expect_near(const at::Tensor& found, const at::Tensor& expected, double terms) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  const at::Tensor off = (found.to(at::kDouble) - expected).abs();
  const at::Tensor allowed = expected.abs() * kRounding + terms * 1e-5;
  EXPECT_TRUE((off <= allowed).all().item<bool>())
      << "off by " << off.max().item<double>() << " of " << expected.abs().max().item<double>();
}

/// Rows of an odd number of values begin anywhere.
TEST(Kernels, LogLikelihoodsAndTheirGradientsAreThoseOfTheSoftmax) {
  for (const std::int64_t columns : {1, 3, 8, 61, 4099, 4104}) {
    SCOPED_TRACE(columns);
    const at::Tensor logits = drawn({3, columns}, 4);
    logits[1].fill_(-60);
    logits[1][columns / 2] = 60;  // all of the probability; the target's is nothing
    const at::Tensor target =
        at::tensor({0, static_cast<int>(columns) - 1, 1 % static_cast<int>(columns)}, at::kLong);
    const at::Tensor log_p = at::log_softmax(logits.to(at::kDouble), -1);
    const at::Tensor expected = log_p.gather(1, target.unsqueeze(1)).squeeze(1);
    at::Tensor gradients = log_p.exp();
    gradients.scatter_(1, target.unsqueeze(1), expected.expm1().unsqueeze(1));
    for (const int with : {0, 1}) {
      const at::Tensor mine = logits.clone(), found = at::empty({3});
      host::run({3}, 64, host::log_likelihood, bits(mine),
                static_cast<Index*>(target.mutable_data_ptr()), floats(found), Index{columns},
                with);
      EXPECT_TRUE(at::allclose(found.to(at::kDouble), expected, 1e-5, 1e-5)) << found << expected;
      expect_near(mine, with != 0 ? gradients : logits.to(at::kDouble), with != 0 ? 1e-2 : 0);
    }
  }
}

TEST(Kernels, ColumnsAreAddedUp) {
  for (const auto& [rows, columns] : {std::pair{1, 8}, {40, 264}, {301, 40}}) {
    SCOPED_TRACE(rows);
    const at::Tensor x = drawn({rows, columns});
    for (const unsigned down : {1U, 3U}) {
      const at::Tensor parts = at::full({down, columns}, NAN),
                       sums = at::empty({columns}, at::kBFloat16);
      host::run({static_cast<unsigned>((columns + 255) / 256), down}, 256, host::column_parts,
                bits(x), floats(parts), Index{rows}, Index{columns});
      host::run({static_cast<unsigned>((columns + 31) / 32)}, 1024, host::sum_parts, floats(parts),
                bits(sums), bits(sums), static_cast<int>(down), Index{columns}, Index{columns});
      expect_near(sums, x.to(at::kDouble).sum(0), rows);
    }
  }
}

TEST(Kernels, TheBackwardOfALayerNormIsLibTorchs) {
  for (const auto& [rows, columns] : {std::pair{1, 8}, {7, 264}}) {
    SCOPED_TRACE(rows);
    const at::Tensor x = drawn({rows, columns}, 3) + 1, dy = drawn({rows, columns}),
                     weight = drawn({columns}), bias = at::zeros({columns});
    const auto wide = [](const at::Tensor& value) { return value.to(at::kDouble); };
    const auto [y, means, scales] =
        at::native_layer_norm(wide(x), {columns}, wide(weight), wide(bias), 1e-5);
    const auto [of_x, of_weight, of_bias] = at::native_layer_norm_backward(
        wide(dy), wide(x), {columns}, means, scales, wide(weight), wide(bias), {true, true, true});
    const at::Tensor mean = means.to(at::kFloat), scale = scales.to(at::kFloat);
    for (const unsigned blocks : {1U, 4U}) {
      if (blocks > static_cast<unsigned>(rows)) continue;
      const at::Tensor dx = at::empty_like(x), parts = at::full({blocks, 2 * columns}, NAN),
                       dweight = at::empty_like(weight), dbias = at::empty_like(weight);
      host::run({blocks}, static_cast<unsigned>((columns / 8 + 31) / 32 * 32),
                host::layer_norm_backward, bits(dy), bits(x), floats(mean), floats(scale),
                bits(weight), bits(dx), floats(parts), Index{rows}, Index{columns});
      host::run({static_cast<unsigned>((2 * columns + 31) / 32)}, 1024, host::sum_parts,
                floats(parts), bits(dweight), bits(dbias), static_cast<int>(blocks),
                Index{2 * columns}, Index{columns});
      expect_near(dx, of_x, 10);
      expect_near(dweight, of_weight, 10 * rows);
      expect_near(dbias, of_bias, 10 * rows);
    }
  }
}

TEST(Kernels, GradientsAreAddedInFloat32) {
  for (const std::int64_t count : {1, 8, 20, 4099}) {
    SCOPED_TRACE(count);
    const at::Tensor x = drawn({count}), before = at::randn({count});
    for (const int is_first : {0, 1}) {
      const at::Tensor sum = before.clone();
      host::run({static_cast<unsigned>((count + 2047) / 2048)}, 256, host::accumulate, floats(sum),
                bits(x), Index{count}, is_first);
      EXPECT_TRUE(at::equal(sum, is_first != 0 ? x.to(at::kFloat) : before + x));
    }
  }
}

}  // namespace
}  // namespace trireme::kernels
