// The kernels themselves, run on the host, against LibTorch in double.
// SPDX-License-Identifier: Apache-2.0
#include "host_kernels.h"

#include <array>
#include <vector>

namespace trireme::kernels {
namespace {

class Kernels : public InEitherOrder {};
INSTANTIATE_TEST_SUITE_P(Warps, Kernels,
                         testing::Values(host::Order::kUpwards, host::Order::kDownwards), name_of);

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

TEST_P(Kernels, ThreeSideBySideHaveTheColumnsAndTheirSums) {
  for (const auto& [rows, width] : {std::pair{1, 8}, {40, 264}, {301, 40}}) {
    SCOPED_TRACE(rows);
    const at::Tensor x[] = {drawn({rows, width}), drawn({rows, width}), drawn({rows, width})};
    const at::Tensor expected = at::cat({x[0], x[1], x[2]}, -1);
    const auto across = static_cast<unsigned>((3 * width + 255) / 256);
    for (const unsigned down : {1U, 3U}) {
      const at::Tensor y = at::empty_like(expected), parts = at::full({down, 3 * width}, NAN),
                       of_expected = at::full_like(parts, NAN);
      host::run({across, down}, 256, host::side_by_side, bits(x[0]), bits(x[1]), bits(x[2]),
                bits(y), floats(parts), Index{rows}, Index{width});
      host::run({across, down}, 256, host::column_parts, bits(expected), floats(of_expected),
                Index{rows}, Index{3 * width});
      EXPECT_TRUE(at::equal(y, expected));
      EXPECT_TRUE(at::equal(parts, of_expected));
    }
  }
}

TEST_P(Kernels, PartsAreAddedToASumInFloat32OrBeginOne) {
  constexpr std::int64_t kParts = 70, kColumns = 41;
  const at::Tensor parts = at::randn({kParts, kColumns});
  const at::Tensor once = at::full({kColumns}, NAN), twice = at::full({kColumns}, NAN);
  for (const auto& [sum, times] : {std::pair{once, 1}, {twice, 2}}) {
    for (int i = 0; i < times; ++i) sum_parts({part_sum(parts, 0, sum, /*is_first=*/i == 0)});
  }
  EXPECT_TRUE(at::allclose(once.to(at::kDouble), parts.to(at::kDouble).sum(0), 1e-5, 1e-5));
  EXPECT_TRUE(at::equal(twice, once + once));
}

/// Of other sizes, from other columns on, to sums of both types: as many as a launch takes.
TEST_P(Kernels, SumsOfOneLaunchHaveTheBitsOfOneLaunchEach) {
  std::vector<at::Tensor> parts, together, alone;  // the first for as long as they are read
  std::vector<host::PartSum> all;
  for (int i = 0; i < host::PartSums::kMost; ++i) {
    const std::int64_t columns = std::array{41, 1, 64, 33}.at(i % 4), begin = i % 3;
    const bool is_wide = i % 5 < 3, is_first = i % 2 == 0;
    const auto type = is_wide ? at::kFloat : at::kBFloat16;
    parts.push_back(at::randn({1 + 23 * (i % 6), begin + columns + i}));
    together.push_back(at::randn({columns}).to(type));
    alone.push_back(together.back().clone());
    all.push_back(part_sum(parts.back(), begin, together.back(), is_first));
    sum_parts({part_sum(parts.back(), begin, alone.back(), is_first)});
  }
  sum_parts(all);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(at::equal(together[i], alone[i])) << i;
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
