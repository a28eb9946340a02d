// The kernels themselves, run on the host, against LibTorch in double.
// SPDX-License-Identifier: Apache-2.0
#include "host_block.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

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

namespace {

using Bf16 = std::uint16_t;
using Index = long long;

/// In either order of a block's warps.
class Kernels : public testing::TestWithParam<host::Order> {
 protected:
  void SetUp() override { host::order = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Warps, Kernels,
                         testing::Values(host::Order::kUpwards, host::Order::kDownwards),
                         [](const auto& order) {
                           return order.param == host::Order::kUpwards ? "Upwards" : "Downwards";
                         });

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
TEST_P(Kernels, LogLikelihoodsAndTheirGradientsAreThoseOfTheSoftmax) {
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

TEST_P(Kernels, MaskedTargetsHaveNeitherLossNorGradients) {
  for (const std::int64_t columns : {1, 61, 4104}) {
    SCOPED_TRACE(columns);
    const at::Tensor logits = drawn({3, columns}, 4);
    const at::Tensor masked = at::tensor({0, -100, 0}, at::kLong), all = at::zeros({3}, at::kLong);
    for (const int with : {0, 1}) {
      const at::Tensor mine = logits.clone(), expected = logits.clone();
      const at::Tensor found = at::full({3}, 7.0F), of_all = at::empty({3});
      host::run({3}, 64, host::log_likelihood, bits(mine),
                static_cast<Index*>(masked.mutable_data_ptr()), floats(found), Index{columns},
                with);
      host::run({3}, 64, host::log_likelihood, bits(expected),
                static_cast<Index*>(all.mutable_data_ptr()), floats(of_all), Index{columns}, with);
      of_all[1] = 0;
      if (with != 0) expected[1].zero_();
      EXPECT_TRUE(at::equal(found, of_all)) << found << of_all;
      EXPECT_TRUE(at::equal(mine, expected));
    }
  }
}

/// What `parts` [P, C] come to from column `begin` on, rounded.
at::Tensor summed(const at::Tensor& parts, std::int64_t begin, std::int64_t columns) {
  const at::Tensor sums = at::empty({columns}, at::kBFloat16);
  host::run({static_cast<unsigned>((columns + 31) / 32)}, 1024, host::sum_parts,
            floats(parts) + begin, bits(sums), nullptr, static_cast<int>(parts.size(0)),
            Index{parts.size(1)}, Index{columns}, 1);
  return sums;
}

TEST_P(Kernels, ColumnsAreAddedUp) {
  for (const auto& [rows, columns] : {std::pair{1, 8}, {40, 264}, {301, 40}}) {
    SCOPED_TRACE(rows);
    const at::Tensor x = drawn({rows, columns});
    for (const unsigned down : {1U, 3U}) {
      const at::Tensor parts = at::full({down, columns}, NAN);
      host::run({static_cast<unsigned>((columns + 255) / 256), down}, 256, host::column_parts,
                bits(x), floats(parts), Index{rows}, Index{columns});
      const at::Tensor expected = x.to(at::kDouble).sum(0);
      expect_near(summed(parts, 0, columns), expected, rows);
      expect_near(summed(parts, 4, columns - 4), expected.narrow(0, 4, columns - 4), rows);
    }
  }
}

TEST_P(Kernels, PartsAreAddedToASumInFloat32OrBeginOne) {
  constexpr std::int64_t kParts = 70, kColumns = 41;
  const at::Tensor parts = at::randn({kParts, kColumns});
  const at::Tensor once = at::full({kColumns}, NAN), twice = at::full({kColumns}, NAN);
  for (const auto& [sum, times] : {std::pair{once, 1}, {twice, 2}}) {
    for (int i = 0; i < times; ++i)
      host::run({2}, 1024, host::sum_parts, floats(parts), nullptr, floats(sum),
                static_cast<int>(kParts), Index{kColumns}, Index{kColumns},
                static_cast<int>(i == 0));
  }
  EXPECT_TRUE(at::allclose(once.to(at::kDouble), parts.to(at::kDouble).sum(0), 1e-5, 1e-5));
  EXPECT_TRUE(at::equal(twice, once + once));
}

TEST_P(Kernels, LayerNormsAndTheirGradientsAreLibTorchs) {
  for (const auto& [rows, columns] : {std::pair{1, 8}, {7, 264}, {5, 2056}}) {
    SCOPED_TRACE(rows);
    const at::Tensor x = drawn({rows, columns}, 3) + 1, dy = drawn({rows, columns}),
                     more = drawn({rows, columns}), weight = drawn({columns}),
                     bias = drawn({columns});
    const auto wide = [](const at::Tensor& value) { return value.to(at::kDouble); };
    const auto [y, means, scales] =
        at::native_layer_norm(wide(x), {columns}, wide(weight), wide(bias), 1e-5);
    const auto [of_x, of_weight, of_bias] = at::native_layer_norm_backward(
        wide(dy), wide(x), {columns}, means, scales, wide(weight), wide(bias), {true, true, true});
    const auto threads = static_cast<unsigned>((columns / 8 + 31) / 32 * 32);
    for (const unsigned blocks : {1U, 4U}) {
      if (blocks > static_cast<unsigned>(rows)) continue;
      const at::Tensor found = at::empty_like(x), mean = at::empty({rows}),
                       scale = at::empty({rows});
      host::run({blocks}, threads, host::row_norm, bits(x), bits(weight), bits(bias), bits(found),
                floats(mean), floats(scale), Index{rows}, Index{columns}, 1e-5F);
      expect_near(found, y, 10);
      EXPECT_TRUE(at::allclose(wide(mean), means.flatten(), 1e-5, 1e-6));
      EXPECT_TRUE(at::allclose(wide(scale), scales.flatten(), 1e-5, 1e-6));
      for (const bool has_more : {false, true}) {
        const at::Tensor dx = at::empty_like(x), parts = at::full({blocks, 2 * columns}, NAN);
        host::run({blocks}, threads, host::row_norm_backward, bits(dy), bits(x), floats(mean),
                  floats(scale), bits(weight), has_more ? bits(more) : nullptr, bits(dx),
                  floats(parts), Index{rows}, Index{columns});
        expect_near(dx, has_more ? of_x + wide(more) : of_x, 10);
        expect_near(summed(parts, 0, columns), of_weight, 10 * rows);
        expect_near(summed(parts, columns, columns), of_bias, 10 * rows);

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

TEST_P(Kernels, RmsNormsHaveNoMeanAndNoBias) {
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
    host::run({2}, threads, host::row_norm, bits(x), bits(weight), nullptr, bits(y), nullptr,
              floats(scale), Index{rows}, Index{columns}, 1e-5F);
    expect_near(y, h * wide_weight, 10);
    EXPECT_TRUE(at::allclose(scale.to(at::kDouble), r.flatten(), 1e-5, 1e-6));

    const at::Tensor dx = at::empty_like(x), parts = at::full({2, columns}, NAN);
    host::run({2}, threads, host::row_norm_backward, bits(dy), bits(x), nullptr, floats(scale),
              bits(weight), nullptr, bits(dx), floats(parts), Index{rows}, Index{columns});
    expect_near(dx, (g - h * (g * h).mean(-1, true)) * r, 10);
    expect_near(summed(parts, 0, columns), (wide_dy * h).sum(0), 50);

    const at::Tensor again = at::zeros_like(x);
    host::run({2}, threads, host::row_norm_backward_again, bits(dy), bits(x), nullptr,
              floats(scale), bits(weight), nullptr, nullptr, bits(dx), bits(again), floats(parts),
              Index{rows}, Index{columns});
    EXPECT_TRUE(at::equal(again, y));
  }
}

TEST_P(Kernels, PairsOfEveryHeadAreTurnedAndTurnedBack) {
  constexpr std::int64_t kBatch = 2, kTokens = 3, kHalf = 16;
  constexpr int kHeads = 5;
  const at::Tensor x = drawn({kBatch, kTokens, kHeads, 2 * kHalf});
  const at::Tensor angle = at::randn({kTokens, 1, kHalf});
  const at::Tensor cosines = at::cos(angle), sines = at::sin(angle);
  const auto halves = x.to(at::kDouble).chunk(2, -1);
  for (const float direction : {1.0F, -1.0F}) {
    const at::Tensor y = at::empty_like(x);
    const Index count = x.numel() / 16;
    host::run({1}, 256, host::turn, bits(x), floats(cosines), floats(sines), bits(y), count,
              Index{kTokens}, kHeads, static_cast<int>(kHalf), direction);
    const at::Tensor c = cosines.to(at::kDouble), s = direction * sines.to(at::kDouble);
    expect_near(y, at::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1), 1);
  }
}

/// With what came out of it made again to the bit, and the gradient's sums as column_parts has
/// them.
TEST_P(Kernels, GeluAndItsGradientAreLibTorchs) {
  for (const auto& [rows, columns] : {std::pair{1, 8}, {7, 264}, {150, 40}}) {
    SCOPED_TRACE(rows);
    const at::Tensor x = drawn({rows, columns}, 3), dy = drawn({rows, columns});
    x[0][0] = 60;
    x[0][1] = -60;
    for (const int is_tanh : {0, 1}) {
      const char* const kind = is_tanh != 0 ? "tanh" : "none";
      const at::Tensor y = at::empty_like(x);
      const Index count = x.numel() / 8;
      host::run({static_cast<unsigned>((count + 255) / 256)}, 256, host::gelu, bits(x), bits(y),
                count, is_tanh);
      expect_near(y, at::gelu(x.to(at::kDouble), kind), 0.1);
      const host::Three blocks{static_cast<unsigned>((columns + 255) / 256), 2};
      for (const bool again : {false, true}) {
        const at::Tensor dx = dy.clone(), made = at::zeros_like(x),
                         parts = at::full({2, columns}, NAN), expected = parts.clone();
        host::run(blocks, 256, host::gelu_backward, bits(dx), bits(x), again ? bits(made) : nullptr,
                  floats(parts), Index{rows}, Index{columns}, is_tanh);
        expect_near(dx, at::gelu_backward(dy.to(at::kDouble), x.to(at::kDouble), kind), 0.1);
        EXPECT_EQ(again, at::equal(made, y));
        host::run(blocks, 256, host::column_parts, bits(dx), floats(expected), Index{rows},
                  Index{columns});
        EXPECT_TRUE(at::equal(parts, expected));
      }
    }
  }
}

TEST_P(Kernels, SwigluAndItsGradientsAreTheFormulas) {
  const at::Tensor gate = drawn({40, 8}, 4), up = drawn({40, 8}), dy = drawn({40, 8});
  const at::Tensor y = at::empty_like(gate), of_gate = at::empty_like(gate),
                   of_up = at::empty_like(gate);
  const at::Tensor g = gate.to(at::kDouble), s = at::sigmoid(g), d = dy.to(at::kDouble);
  host::run({2}, 32, host::swiglu, bits(gate), bits(up), bits(y), Index{40});
  host::run({2}, 32, host::swiglu_backward, bits(dy), bits(gate), bits(up), bits(of_gate),
            bits(of_up), Index{40});
  expect_near(y, g * s * up.to(at::kDouble), 1);
  expect_near(of_gate, d * up.to(at::kDouble) * s * (1 + g * (1 - s)), 1);
  expect_near(of_up, d * g * s, 1);
}

TEST_P(Kernels, GradientsAreAddedInFloat32) {
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

/// Several parameters, of which one begins anywhere, over two steps; one has no narrow weight.
TEST_P(Kernels, UpdatesAreLibTorchs) {
  constexpr float kRate = 1e-2F, kDecay = 0.1F, kBeta1 = 0.9F, kBeta2 = 0.95F, kEpsilon = 1e-8F;
  std::vector<at::Tensor> values, first, second, weights, expected, expected_first, expected_second;
  for (const std::int64_t count : {1100, 1, 300}) {
    for (auto* all : {&values, &first, &second})
      all->push_back(at::randn({count + 3}).abs().narrow(0, 3, count));
    weights.push_back(at::zeros({count + 1}, at::kBFloat16).narrow(0, 1, count));
    expected.push_back(values.back().clone());
    expected_first.push_back(first.back().clone());
    expected_second.push_back(second.back().clone());
  }
  for (const int step : {1, 7}) {
    const at::Tensor divisor = at::full({}, step == 1 ? 1.0F : 2.5F);
    host::Update all{};
    std::vector<at::Tensor> gradients;
    int blocks = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      gradients.push_back(at::randn({values[i].numel()}));
      all.begins[all.count] = blocks;
      all.of[all.count++] = {floats(values[i]),
                             floats(gradients[i]),
                             floats(first[i]),
                             floats(second[i]),
                             i == 1 ? nullptr : bits(weights[i]),
                             values[i].numel()};
      blocks += static_cast<int>((values[i].numel() + 1023) / 1024);
    }
    all.rate = kRate;
    all.decay = kDecay;
    all.beta1 = kBeta1;
    all.beta2 = kBeta2;
    all.epsilon = kEpsilon;
    all.correction1 = static_cast<float>(1 - std::pow(double{kBeta1}, step));
    all.correction2 = static_cast<float>(std::sqrt(1 - std::pow(double{kBeta2}, step)));
    all.divisor = step == 1 ? nullptr : floats(divisor);
    host::run({static_cast<unsigned>(blocks)}, 256, host::adamw, all);

    const std::vector<at::Tensor> steps(values.size(), at::full({}, step));
    at::_fused_adamw_(expected, gradients, expected_first, expected_second, {}, steps, kRate,
                      kBeta1, kBeta2, kDecay, kEpsilon, false, false, divisor);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(at::allclose(values[i], expected[i], 1e-5, 1e-6)) << i;
      EXPECT_TRUE(at::allclose(first[i], expected_first[i], 1e-5, 1e-6)) << i;
      EXPECT_TRUE(at::allclose(second[i], expected_second[i], 1e-5, 1e-6)) << i;
      const at::Tensor rounded = values[i].to(at::kBFloat16);
      EXPECT_TRUE(at::equal(weights[i], i == 1 ? at::zeros_like(rounded) : rounded)) << i;
    }
  }
}

}  // namespace
}  // namespace trireme::kernels
