// The kernels themselves, to be run on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host_block.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::kernels {
namespace host {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
// In the order in which they are built.
// clang-format off
#include "kernels/basics.cu"
#include "kernels/arguments.h"
#include "kernels/losses.cu"
#include "kernels/sums.cu"
#include "kernels/norms.cu"
#include "kernels/activations.cu"
#include "kernels/updates.cu"
// clang-format on
#pragma GCC diagnostic pop
}  // namespace host

using Bf16 = std::uint16_t;
using Index = long long;

/// In either order of a block's warps.
class InEitherOrder : public testing::TestWithParam<host::Order> {
 protected:
  void SetUp() override { host::order = GetParam(); }
};
inline std::string name_of(const testing::TestParamInfo<host::Order>& order) {
  return order.param == host::Order::kUpwards ? "Upwards" : "Downwards";
}

/// One rounding to bfloat16, relative.
inline constexpr double kRounding = 1.0 / 256;

inline at::Tensor drawn(at::IntArrayRef sizes, double scale = 1) {
  static at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(7);
  return at::randn(sizes, generator).mul_(scale).to(at::kBFloat16);
}

inline Bf16* bits(const at::Tensor& x) {
  return static_cast<Bf16*>(x.mutable_data_ptr());
}
inline float* floats(const at::Tensor& x) {
  return x.mutable_data_ptr<float>();
}

/// Up to a rounding, and to what sums of terms as large as `terms` are off by in float32.
inline void expect_near(const at::Tensor& found, const at::Tensor& expected, double terms) {
  ASSERT_EQ(found.sizes(), expected.sizes());
  const at::Tensor off = (found.to(at::kDouble) - expected).abs();
  const at::Tensor allowed = expected.abs() * kRounding + terms * 1e-5;
  EXPECT_TRUE((off <= allowed).all().item<bool>())
      << "off by " << off.max().item<double>() << " of " << expected.abs().max().item<double>();
}

/// What `parts` [P, C] come to from column `begin` on, to `sums`, float32 or bfloat16.
inline host::PartSum part_sum(const at::Tensor& parts, std::int64_t begin, const at::Tensor& sums,
                              bool is_first) {
  const bool is_wide = sums.scalar_type() == at::kFloat;
  return {floats(parts) + begin,
          is_wide ? nullptr : bits(sums),
          is_wide ? floats(sums) : nullptr,
          static_cast<int>(parts.size(0)),
          int{is_first},
          parts.size(1),
          sums.numel()};
}

inline void sum_parts(const std::vector<host::PartSum>& sums) {
  host::PartSums all{};
  int blocks = 0;
  for (const host::PartSum& one : sums) {
    all.begins[all.count] = blocks;
    all.of[all.count++] = one;
    blocks += static_cast<int>((one.columns + 31) / 32);
  }
  host::run({static_cast<unsigned>(blocks)}, 1024, host::sum_parts, all);
}

/// Of them, rounded.
inline at::Tensor summed(const at::Tensor& parts, std::int64_t begin, std::int64_t columns) {
  const at::Tensor sums = at::empty({columns}, at::kBFloat16);
  sum_parts({part_sum(parts, begin, sums, /*is_first=*/true)});
  return sums;
}

}  // namespace trireme::kernels
