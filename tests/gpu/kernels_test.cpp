// Trireme's own GPU kernels at real sizes, against LibTorch in double.
// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#include "device/device_functions.h"
#include "device/device_kernels.h"
#include "device/device_products.h"

#include "trireme/model/functional.h"
#include "trireme/model/layer.h"
#include "trireme/model/update.h"

#include <ATen/ATen.h>

#include <cmath>

namespace trireme::model {
namespace {

TEST_F(GpuKernels, LogLikelihoodsAndTheirGradientsAreThoseOfTheSoftmax) {
  for (const std::int64_t columns : {50304, 50257, 1000}) {
    SCOPED_TRACE(columns);
    at::Tensor logits = drawn({rows(700), columns}, 3);
    const at::Tensor target =
        at::randint(columns, {logits.size(0)}, at::TensorOptions(at::kLong).device(on_gpu()));
    const at::Tensor log_p = at::log_softmax(wide(logits), -1);
    const at::Tensor of_target = log_p.gather(1, target.unsqueeze(1));
    at::Tensor expected = log_p.exp();
    expected.scatter_(1, target.unsqueeze(1), of_target.expm1());

    const at::Tensor unchanged = logits.clone();
    const auto without = device_log_likelihood(logits, target, false);
    ASSERT_TRUE(without);
    EXPECT_TRUE(at::equal(logits, unchanged));
    const auto found = device_log_likelihood(logits, target, true);

    EXPECT_TRUE(at::equal(*found, *without));
    EXPECT_TRUE(at::allclose(wide(*found), of_target.squeeze(1), 1e-5, 1e-4));
    expect_near(logits, expected);

    at::Tensor half_masked = unchanged.clone(), masked = target.clone();
    masked.narrow(0, 0, target.numel() / 2).fill_(model::kMasked);
    of_target.masked_fill_((masked == model::kMasked).unsqueeze(1), 0);
    expected.narrow(0, 0, target.numel() / 2).zero_();
    const auto of_half = device_log_likelihood(half_masked, masked, true);
    EXPECT_TRUE(at::allclose(wide(*of_half), of_target.squeeze(1), 1e-5, 1e-4));
    expect_near(half_masked, expected);
  }
}

TEST_F(GpuKernels, LayerNormsAndTheirGradientsAreLibTorchs) {
  for (const std::int64_t width : {136, 768, 1024, 1280, 1600, 2048, 8192}) {
    SCOPED_TRACE(width);
    const at::Tensor x = leaf({3, rows(555), width}), weight = leaf({width}), bias = leaf({width});
    const at::Tensor dy = drawn(x.sizes());
    const at::Tensor wide_x = wide_leaf(x), wide_weight = wide_leaf(weight),
                     wide_bias = wide_leaf(bias);
    const at::Tensor wide_y = at::layer_norm(wide_x, {width}, wide_weight, wide_bias, 1e-5);
    ASSERT_TRUE(device_norm(x, weight, bias, 1e-5));
    for (const bool is_used_further : {false, true}) {
      const NormAndInput both = layer_norm_with_input(x, weight, bias, 1e-5);
      expect_near(both.y, wide(wide_y));
      const auto found =
          gradients(is_used_further ? both.y + both.x : both.y, dy, {x, weight, bias});
      const auto expected = gradients(is_used_further ? wide_y + wide_x : wide_y + 0, wide(dy),
                                      {wide_x, wide_weight, wide_bias}, /*keep_graph=*/true);
      for (std::size_t i = 0; i < found.size(); ++i) expect_near(found[i], expected[i]);
    }
  }
}

TEST_F(GpuKernels, RmsNormsAndTheirGradientsAreTheFormulas) {
  for (const std::int64_t width : {4096, 2048, 1600}) {
    SCOPED_TRACE(width);
    const at::Tensor x = leaf({3, rows(555), width}), weight = leaf({width});
    const at::Tensor dy = drawn(x.sizes());
    const at::Tensor wide_x = wide_leaf(x), wide_weight = wide_leaf(weight);
    const at::Tensor r = (wide_x * wide_x).mean(-1, true).add(1e-5).rsqrt();
    const at::Tensor wide_y = wide_x * r * wide_weight;
    const auto own = own_rms_norm(x, weight, 1e-5);
    ASSERT_TRUE(own);
    expect_near(own->y, wide(wide_y));
    const auto found = gradients(own->y + own->x, dy, {x, weight});
    const auto expected = gradients(wide_y + wide_x, wide(dy), {wide_x, wide_weight});
    for (std::size_t i = 0; i < found.size(); ++i) expect_near(found[i], expected[i]);
  }
}

TEST_F(GpuKernels, TurningAndSwigluHaveTheGradientsOfTheFormulas) {
  constexpr std::int64_t kTokens = 20, kHeads = 6, kHalf = 64;
  const at::Tensor x = leaf({rows(64), kTokens, kHeads * 2 * kHalf}), up = leaf(x.sizes());
  const at::Tensor angle =
      at::randn({kTokens, 1, kHalf}, at::TensorOptions(at::kFloat).device(on_gpu()));
  const at::Tensor cosines = at::cos(angle), sines = at::sin(angle);
  const at::Tensor dy = drawn(x.sizes());
  const at::Tensor wide_x = wide_leaf(x), wide_up = wide_leaf(up);
  const auto halves = wide_x.unflatten(2, at::IntArrayRef{kHeads, 2 * kHalf}).chunk(2, -1);
  const at::Tensor c = wide(cosines), s = wide(sines);
  const at::Tensor wide_turned =
      at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1).flatten(2);

  const auto turned = own_turned(x, kHeads, cosines, sines);
  ASSERT_TRUE(turned);
  ASSERT_TRUE(device_swiglu(x, up));
  expect_near(turned->flatten(2), wide(wide_turned));
  const auto found = gradients(turned->flatten(2), dy, {x});
  const auto expected = gradients(wide_turned, wide(dy), {wide_x});
  expect_near(found[0], expected[0]);

  const at::Tensor y = swiglu(x, up), wide_y = at::silu(wide_x) * wide_up;
  expect_near(y, wide(wide_y));
  const auto of_both = gradients(y, dy, {x, up});
  const auto wide_of_both = gradients(wide_y, wide(dy), {wide_x, wide_up});
  for (std::size_t i = 0; i < of_both.size(); ++i) expect_near(of_both[i], wide_of_both[i]);
}

TEST_F(GpuKernels, WidthsThatTheyDoNotTakeAreLibTorchs) {
  const at::Tensor x = leaf({10, 12}), weight = leaf({12}), bias = leaf({12});
  EXPECT_FALSE(device_norm(x, weight, bias, 1e-5));
  EXPECT_FALSE(device_column_parts(x.detach()));
  const at::Tensor y = layer_norm_with_input(x, weight, bias, 1e-5).y;
  EXPECT_TRUE(at::equal(y, at::layer_norm(x, {12}, weight, bias, 1e-5)));
}

/// More parameters than one launch takes, whole and each split in two.
TEST_F(GpuKernels, UpdatesAreThoseOfAdamwWholeOrInParts) {
  const config::OptimizerSpec spec{.kind = "adamw", .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8};
  constexpr double kRate = 1e-2, kDecay = 0.1;
  constexpr int kStep = 3;
  const at::TensorOptions options = at::TensorOptions(at::kFloat).device(on_gpu());
  const at::Tensor divisor = at::full({}, 1.7, options);
  UpdateGroup whole{.decay = kDecay}, parts{.decay = kDecay};
  std::vector<at::Tensor> expected;
  for (int i = 0; i < 70; ++i) {
    const std::int64_t count = 1001 + 37 * i, cut = 333;
    const Updated one{.master = at::randn({count}, options),
                      .weight = drawn({count}),
                      .gradient = at::randn({count}, options),
                      .first = at::randn({count}, options),
                      .second = at::randn({count}, options).abs()};
    const at::Tensor g = wide(one.gradient) / wide(divisor);
    const at::Tensor m = 0.9 * wide(one.first) + 0.1 * g,
                     v = 0.95 * wide(one.second) + 0.05 * g * g;
    const at::Tensor root = (v / (1 - std::pow(0.95, kStep))).sqrt() + 1e-8;
    expected.push_back((1 - kRate * kDecay) * wide(one.master) -
                       kRate / (1 - std::pow(0.9, kStep)) * m / root);
    whole.add(one);
    const auto narrowed = [&](const at::Tensor& x, bool is_first) {
      return is_first ? x.narrow(0, 0, cut) : x.narrow(0, cut, count - cut);
    };
    const auto copied = [](const at::Tensor& x) { return x.clone(); };
    const Updated other{copied(one.master), copied(one.weight), one.gradient, copied(one.first),
                        copied(one.second)};
    for (const bool is_first : {true, false})
      parts.add({narrowed(other.master, is_first), narrowed(other.weight, is_first),
                 narrowed(other.gradient, is_first), narrowed(other.first, is_first),
                 narrowed(other.second, is_first)});
  }
  ASSERT_TRUE(device_adamw(whole, spec, kRate, kStep, divisor));
  update(parts, spec, kRate, kStep, divisor);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(at::allclose(wide(whole.values[i]), expected[i], 1e-5, 1e-6)) << i;
    const auto joined = [&](const std::vector<at::Tensor>& all) {
      return at::cat({all[2 * i], all[2 * i + 1]});
    };
    EXPECT_TRUE(at::equal(joined(parts.values), whole.values[i])) << i;
    EXPECT_TRUE(at::equal(joined(parts.second_moments), whole.second_moments[i])) << i;
    EXPECT_TRUE(at::equal(joined(parts.weights), whole.weights[i])) << i;
    EXPECT_TRUE(at::equal(whole.weights[i], whole.values[i].to(at::kBFloat16))) << i;
  }
}

TEST_F(GpuKernels, GradientsAreAddedInFloat32) {
  for (const std::int64_t count : {1, 4096, 1 << 20, (1 << 20) + 5}) {
    SCOPED_TRACE(count);
    const at::Tensor x = drawn({count}), before = drawn({count}).to(at::kFloat).mul_(1.7);
    at::Tensor sum = before.clone();
    ASSERT_TRUE(device_accumulate(sum, x, false));
    EXPECT_TRUE(at::equal(sum, before + x));
    ASSERT_TRUE(device_accumulate(sum, x, true));
    EXPECT_TRUE(at::equal(sum, x.to(at::kFloat)));
  }
}

/// More sums than one launch takes; rounded, or added to existing values.
TEST_F(GpuKernels, SumsOfPartsHaveTheBitsOfEachAlone) {
  std::vector<PartSum> all;
  std::vector<at::Tensor> alone;
  for (int i = 0; i < 20; ++i) {
    const std::int64_t width = 264 + 40 * i;
    const auto as_floats = at::TensorOptions(at::kFloat).device(on_gpu());
    const at::Tensor sums = at::randn({width}, as_floats);
    PartSum& one = all.emplace_back();
    one = {i % 3 == 0 ? sums.to(at::kBFloat16) : sums,
           at::randn({rows(100 + 31 * i), 2 * width}, as_floats), i % 2 == 0 ? 0 : width,
           /*is_first=*/i % 3 < 2};
    const at::Tensor expected = one.parts.narrow(1, one.begin, width).to(at::kDouble).sum(0) +
                                (one.is_first ? 0 : 1) * one.sums.to(at::kDouble);
    PartSum same = one;
    same.sums = one.sums.clone();
    device_sum_parts({same});
    expect_near(same.sums, expected, i % 3 == 0 ? 4e-3 : 1e-5);
    alone.push_back(same.sums);
  }
  device_sum_parts(all);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(at::equal(all[i].sums, alone[i])) << i;
}

TEST_F(GpuKernels, GiveTheSameBitsEveryTime) {
  const at::Tensor x = leaf({8, rows(1024), 1600}), weight = leaf({1600}), bias = leaf({1600});
  const at::Tensor dy = drawn(x.sizes());
  const auto once = [&] {
    auto all = gradients(layer_norm_with_input(x, weight, bias, 1e-5).y, dy, {x, weight, bias});
    all.push_back(*device_column_parts(dy.view({-1, 1600})));
    return all;
  };
  const auto first = once();
  for (int again = 0; again < 5; ++again) {
    const auto next = once();
    for (std::size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(at::equal(next[i], first[i])) << i;
  }
}

}  // namespace
}  // namespace trireme::model
