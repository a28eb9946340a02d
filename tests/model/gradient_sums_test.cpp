// Gradient sums that a backward fills itself.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/gradient_sums.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace trireme::model {
namespace {

at::Tensor weight(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  return at::ones(sizes, type).requires_grad_();
}

/// A backward that gives every element of `w` the gradient `value`.
void add(const at::Tensor& w, double value) {
  (w * value).sum().backward();
}

TEST(GradientSums, AddUpAndLeaveNoGradientWithTheWeight) {
  const at::Tensor a = weight({3, 5}), b = weight({7});
  GradientSums sums({a, b});
  EXPECT_EQ(sums.flat().numel(), 2 * 16);  // each begins on a cache line
  add(a, 2);
  add(a, 3);
  add(b, 1);

  EXPECT_TRUE(at::equal(sums.of(0), at::full({3, 5}, 5.0)));
  EXPECT_TRUE(at::equal(sums.of(1), at::ones({7})));
  EXPECT_TRUE(sums.of(1).is_alias_of(sums.flat()));
  EXPECT_EQ(sums.flat().sum().item<float>(), 15 * 5 + 7);  // padding stays zero
  EXPECT_FALSE(a.grad().defined());
}

TEST(GradientSums, BeginAnewWithWhatComesNext) {
  const at::Tensor a = weight({4}), b = weight({4}), c = weight({4});
  GradientSums sums({a, b, c});
  for (const at::Tensor& w : {a, b, c}) add(w, 9);
  sums.begin_anew();
  add(a, 1);
  add(a, 1);
  add(b, 4);
  sums.complete();
  sums.complete();

  EXPECT_TRUE(at::equal(sums.of(0), at::full({4}, 2.0)));
  EXPECT_TRUE(at::equal(sums.of(1), at::full({4}, 4.0)));
  EXPECT_TRUE(at::equal(sums.of(2), at::zeros({4}))) << "no backward reached it";
}

TEST(GradientSums, OfBfloat16WeightsAreFloat32) {
  const at::Tensor w = weight({4}, at::kBFloat16);
  GradientSums sums({w});
  for (int i = 0; i < 1000; ++i) add(w, 1);

  EXPECT_EQ(sums.of(0).scalar_type(), at::kFloat);
  EXPECT_EQ(sums.of(0)[0].item<float>(), 1000);  // in bfloat16 it ends at 256
}

// Narrow gradients are added by our own loop, if their memory layout is that of their sum.
TEST(GradientSums, OfNarrowGradientsHaveTheBitsOfLibTorchsSum) {
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor w = weight({300, 500}, type);
    GradientSums sums({w});
    at::Tensor expected = at::zeros({300, 500});
    for (int i = 0; i < 4; ++i) {
      const bool is_crossed = i == 3;
      const at::Tensor gradient =
          is_crossed ? at::randn({500, 300}).to(type).t() : at::randn({300, 500}).to(type);
      w.backward(gradient);
      expected.add_(gradient);
    }
    EXPECT_TRUE(at::equal(sums.of(0), expected)) << type;
    EXPECT_GT(sums.of(0).std().item<float>(), 1);
  }
}

TEST(GradientSums, LetGoOfWeightsWhenTheyEnd) {
  const at::Tensor w = weight({4});
  { const GradientSums sums({w}); }
  add(w, 3);
  EXPECT_TRUE(at::equal(w.grad(), at::full({4}, 3.0)));
}

}  // namespace
}  // namespace trireme::model
