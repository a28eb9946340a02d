// SPDX-License-Identifier: Apache-2.0
#include "rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

namespace trireme::data {
namespace {

std::unique_ptr<Dataset> open_synthetic(const ExampleShape& shape, std::int64_t examples,
                                        double validation = 0.25, std::int64_t seed = 1) {
  return open_dataset(
      {.kind = "synthetic", .validation_fraction = validation, .examples = examples}, shape, seed);
}

const ExampleShape kVectors{.input = "vectors", .inputs = 20, .classes = 5};
const ExampleShape kTokens{.input = "tokens", .inputs = 16, .classes = 50};
const ExampleShape kImages{.input = "images",
                           .inputs = 3 * 12 * 16,
                           .classes = 5,
                           .channels = 3,
                           .height = 12,
                           .width = 16};

TEST(SyntheticVectors, AreStandardisedAndUseEveryClass) {
  const auto dataset = open_synthetic(kVectors, 4000);
  ASSERT_EQ(dataset->train_examples(), 3000);
  ASSERT_EQ(dataset->validation_examples(), 1000);

  const MicroBatch all = dataset->train(0, 3000);

  EXPECT_EQ(all.input.sizes(), (at::IntArrayRef{3000, 20}));
  EXPECT_EQ(all.input.scalar_type(), at::kFloat);
  EXPECT_EQ(all.target.sizes(), (at::IntArrayRef{3000}));
  // 60000 draws: mean and variance vary by 1/245 and sqrt(2)/245 at most.
  EXPECT_NEAR(all.input.mean().item<double>(), 0, 5.0 / 245);
  EXPECT_NEAR(all.input.var().item<double>(), 1, 7.0 / 245);
  const auto counts = values(at::bincount(all.target));
  EXPECT_EQ(counts.size(), 5U);
  for (const std::int64_t count : counts) EXPECT_GT(count, 0);
}

TEST(SyntheticVectors, AreTheSameExamplesHoweverTheyAreLoaded) {
  const auto dataset = open_synthetic(kVectors, 100);
  const auto again = open_synthetic(kVectors, 100);
  const MicroBatch whole = dataset->train(70, 12);

  for (std::int64_t part = 0; part < 4; ++part) {
    const MicroBatch third = again->train(70 + 3 * part, 3);
    EXPECT_TRUE(at::equal(third.input, whole.input.narrow(0, 3 * part, 3)));
    EXPECT_TRUE(at::equal(third.target, whole.target.narrow(0, 3 * part, 3)));
  }
  EXPECT_EQ(again->digest(), dataset->digest());
  EXPECT_NE(open_synthetic(kVectors, 100, 0.25, 2)->digest(), dataset->digest());
  EXPECT_FALSE(at::equal(open_synthetic(kVectors, 100, 0.25, 2)->train(70, 12).input, whole.input));
}

TEST(SyntheticVectors, AnEpochHoldsEveryExampleOnceAndNoneOfTheValidation) {
  const auto dataset = open_synthetic(kVectors, 100);
  std::set<float> seen;
  const auto add_first_values = [&](const MicroBatch& batch) {
    for (std::int64_t row = 0; row < batch.input.size(0); ++row)
      seen.insert(batch.input[row][0].item<float>());
  };

  add_first_values(dataset->train(0, 75));
  EXPECT_EQ(seen.size(), 75U);
  add_first_values(dataset->train(75, 75));
  EXPECT_EQ(seen.size(), 75U);
  add_first_values(dataset->validation(0, 25, 25));
  EXPECT_EQ(seen.size(), 100U);
}

TEST(SyntheticVectors, CanBeLearntByALinearModel) {
  const auto dataset = open_synthetic(kVectors, 4000);
  const MicroBatch train = dataset->train(0, 3000);
  at::Tensor weight_CI = at::zeros({5, 20}).requires_grad_(true);
  for (int step = 0; step < 100; ++step) {
    const at::Tensor loss =
        at::cross_entropy_loss(at::matmul(train.input, weight_CI.t()), train.target);
    loss.backward();
    weight_CI.mutable_grad().mul_(-2.0);
    weight_CI.data().add_(weight_CI.grad());
    weight_CI.mutable_grad().reset();
  }

  const MicroBatch test = dataset->validation(0, 1000, 1000);
  const at::Tensor right = at::matmul(test.input, weight_CI.t()).argmax(1).eq(test.target);

  const double accuracy = right.to(at::kFloat).mean().item<double>();
  EXPECT_GT(accuracy, 0.85);  // guessing: about 0.2
  EXPECT_LT(accuracy, 0.99);  // there is noise
}

TEST(SyntheticImages, AreStandardisedAndUseEveryClass) {
  const auto dataset = open_synthetic(kImages, 800);
  ASSERT_EQ(dataset->train_examples(), 600);
  const MicroBatch all = dataset->train(0, 600);

  EXPECT_EQ(all.input.sizes(), (at::IntArrayRef{600, 3, 12, 16}));
  EXPECT_EQ(all.input.scalar_type(), at::kFloat);
  EXPECT_EQ(all.target.sizes(), (at::IntArrayRef{600}));
  // The patterns have 5 x 3 x 16 values: their mean and variance vary by 1/15 and sqrt(2)/15,
  // scaled by sqrt(1/10) and 1/10 under the noise.
  EXPECT_NEAR(all.input.mean().item<double>(), 0, 5 * 0.021);
  EXPECT_NEAR(all.input.var().item<double>(), 1, 5 * 0.01);
  for (const std::int64_t count : values(at::bincount(all.target)))
    EXPECT_NEAR(static_cast<double>(count), 120, 5 * 10);
}

TEST(SyntheticImages, AreTheSameExamplesHoweverTheyAreLoaded) {
  const auto dataset = open_synthetic(kImages, 100);
  const MicroBatch whole = dataset->train(70, 12);

  for (std::int64_t i = 0; i < 12; ++i) {
    const MicroBatch one = open_synthetic(kImages, 100)->train(70 + i, 1);
    EXPECT_TRUE(at::equal(one.input[0], whole.input[i]));
    EXPECT_TRUE(at::equal(one.target[0], whole.target[i]));
  }
  EXPECT_FALSE(at::equal(open_synthetic(kImages, 100, 0.25, 2)->train(70, 12).input, whole.input));
  ExampleShape turned = kImages;
  std::swap(turned.height, turned.width);
  EXPECT_NE(open_synthetic(turned, 100)->digest(), dataset->digest());
}

TEST(SyntheticImages, CanBeLearntByTheirMeans) {
  const auto dataset = open_synthetic(kImages, 800);
  const MicroBatch train = dataset->train(0, 600);
  std::vector<at::Tensor> means;
  for (std::int64_t c = 0; c < 5; ++c)
    means.push_back(train.input.index_select(0, train.target.eq(c).nonzero().flatten()).mean(0));
  const at::Tensor means_CX = at::stack(means).flatten(1);

  const MicroBatch test = dataset->validation(0, 200, 200);
  const at::Tensor nearest = at::cdist(test.input.flatten(1), means_CX).argmin(1);

  EXPECT_GT(nearest.eq(test.target).to(at::kFloat).mean().item<double>(), 0.9);  // guessing: 0.2
}

TEST(SyntheticTokens, FollowFourEquallyLikelySuccessors) {
  const auto dataset = open_synthetic(kTokens, 4000, 0);
  std::map<std::int64_t, std::map<std::int64_t, int>> successors;
  std::map<std::int64_t, int> frequency;
  for (const Row& row : rows(dataset->train(0, 4000))) {
    for (std::size_t t = 0; t < 16; ++t) {
      ++successors[row.first[t]][row.second[t]];
      ++frequency[row.first[t]];
      EXPECT_EQ(row.first[t], t == 0 ? row.first[0] : row.second[t - 1]);
    }
  }

  // 64000 tokens of 50: 1280 each, give or take sqrt(1280) = 36 (a little more: they are chained).
  ASSERT_EQ(frequency.size(), 50U);
  int with_four = 0;
  for (const auto& [token, count] : frequency) {
    EXPECT_NEAR(count, 1280, 6 * 36) << token;
    double entropy = 0;
    for (const auto& [next, times] : successors[token])
      entropy -= static_cast<double>(times) / count * std::log(static_cast<double>(times) / count);
    const std::size_t distinct = successors[token].size();
    EXPECT_LE(distinct, 4U);
    if (distinct == 4) {
      EXPECT_NEAR(entropy, std::log(4), 0.02);
    } else if (distinct == 3) {  // two of the maps agree
      EXPECT_NEAR(entropy, 1.5 * std::log(2), 0.06);
    }
    with_four += distinct == 4 ? 1 : 0;
  }
  EXPECT_GE(with_four, 35);  // 6 pairs of maps agree at a token with chance 1/50 each
}

TEST(SyntheticTokens, AreTheSameHoweverTheyAreLoaded) {
  const auto dataset = open_synthetic(kTokens, 100);
  const auto whole = rows(dataset->train(70, 12));

  for (std::int64_t i = 0; i < 12; ++i)
    EXPECT_EQ(rows(open_synthetic(kTokens, 100)->train(70 + i, 1)).front(),
              whole[static_cast<std::size_t>(i)]);
  EXPECT_NE(rows(open_synthetic(kTokens, 100, 0.25, 2)->train(70, 12)), whole);
}

TEST(SyntheticTokens, ValidationIsFixed) {
  const auto dataset = open_synthetic(kTokens, 100);
  const auto first_and_last = rows(dataset->validation(0, 2, 2));
  const auto all = rows(dataset->validation(0, 25, 25));

  EXPECT_EQ(first_and_last.front(), all.front());
  EXPECT_EQ(first_and_last.back(), all.back());
  EXPECT_FALSE(dataset->unigram_loss().has_value());
}

}  // namespace
}  // namespace trireme::data
