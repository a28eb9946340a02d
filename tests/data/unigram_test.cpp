// SPDX-License-Identifier: Apache-2.0
#include "trireme/data/unigram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace trireme::data {
namespace {

using Counts = std::vector<std::int64_t>;

TEST(UnigramEntropy, OfEqualSharesIsTheLogarithmOfTheirNumber) {
  EXPECT_DOUBLE_EQ(unigram_entropy(Counts{7, 7}), std::log(2));
  EXPECT_DOUBLE_EQ(unigram_entropy(Counts{0, 3, 3, 0, 3, 3}), std::log(4));
}

TEST(UnigramEntropy, OfHalfQuarterQuarterIsOneAndAHalfBits) {
  EXPECT_DOUBLE_EQ(unigram_entropy(Counts{2, 1, 1}), 1.5 * std::log(2));
}

TEST(UnigramEntropy, OfOneTokenOrNoneIsZero) {
  EXPECT_EQ(unigram_entropy(Counts{0, 9}), 0);
  EXPECT_EQ(unigram_entropy(Counts{0, 0}), 0);
}

TEST(UnigramCrossEntropy, SmoothsTheTrainCountsByOne) {
  // Shares (2+1)/8, (0+1)/8, (1+1)/8, (1+1)/8.
  const Counts train = {2, 0, 1, 1};

  EXPECT_DOUBLE_EQ(unigram_cross_entropy(train, Counts{0, 5, 0, 0}), std::log(8));
  EXPECT_DOUBLE_EQ(unigram_cross_entropy(train, Counts{0, 1, 0, 1}),
                   (std::log(8) + std::log(4)) / 2);
  EXPECT_DOUBLE_EQ(unigram_cross_entropy(train, Counts{0, 0, 0, 0}), 0);
}

TEST(UnigramCrossEntropy, IsNeverBelowTheEntropy) {
  const Counts validation = {10, 20, 30, 40};
  EXPECT_NEAR(unigram_cross_entropy(Counts{100'000, 200'000, 300'000, 400'000}, validation),
              unigram_entropy(validation), 1e-6);
  for (const Counts& train : {Counts{40, 30, 20, 10}, Counts{0, 0, 0, 0}, Counts{1000, 0, 0, 0}})
    EXPECT_GT(unigram_cross_entropy(train, validation), unigram_entropy(validation));
}

}  // namespace
}  // namespace trireme::data
