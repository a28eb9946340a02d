// SPDX-License-Identifier: Apache-2.0
#include "trireme/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace trireme::data {
namespace {

std::vector<std::uint64_t> images(std::uint64_t size, std::uint64_t key) {
  const Permutation permutation(size, key);
  std::vector<std::uint64_t> all;
  for (std::uint64_t place = 0; place < size; ++place) all.push_back(permutation(place));
  return all;
}

std::vector<std::uint64_t> sorted(std::vector<std::uint64_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

/// Sum of (count - expected)^2 / expected.
double chi_square(const std::vector<int>& counts) {
  const double expected =
      std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
  double sum = 0;
  for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

TEST(Permutation, IsABijectionForEverySize) {
  std::vector<std::uint64_t> sizes(70);
  std::iota(sizes.begin(), sizes.end(), 1U);
  for (const std::uint64_t size : {255, 256, 257, 1000, 1023, 1024, 1025, 4097, 65537})
    sizes.push_back(size);
  for (const std::uint64_t size : sizes) {
    std::vector<std::uint64_t> all(size);
    std::iota(all.begin(), all.end(), 0U);
    for (const std::uint64_t key : {0ULL, 1ULL, ~0ULL})
      EXPECT_EQ(sorted(images(size, key)), all) << "size " << size << ", key " << key;
  }
}

TEST(Permutation, EveryOrderOfFourIsEquallyLikely) {
  std::map<std::vector<std::uint64_t>, int> seen;
  for (std::uint64_t key = 0; key < 24'000; ++key) ++seen[images(4, key)];

  std::vector<int> counts;
  for (const auto& [order, count] : seen) counts.push_back(count);
  EXPECT_EQ(counts.size(), 24U);
  EXPECT_LT(chi_square(counts), 49.7);  // 99.9 % point of chi-square with 23 degrees of freedom
}

TEST(Permutation, SendsAPlaceAnywhere) {
  std::vector<int> counts(10);
  for (std::uint64_t key = 0; key < 20'000; ++key) ++counts[Permutation(1000, key)(0) / 100];

  EXPECT_LT(chi_square(counts), 27.9);  // 99.9 % point with 9 degrees of freedom
}

TEST(Permutation, ScattersNeighbours) {
  constexpr std::uint64_t kSize = 100'000;
  const auto order = images(kSize, 42);

  double distance = 0;
  for (std::size_t i = 1; i < order.size(); ++i)
    distance += std::abs(static_cast<double>(order[i]) - static_cast<double>(order[i - 1]));

  // Two random places are a third of the size apart; the mean over this many varies by 0.00075.
  EXPECT_NEAR(distance / kSize / kSize, 1.0 / 3, 5 * 0.00075);
}

TEST(Permutation, NeedsNoMemoryForHugeSizes) {
  constexpr std::uint64_t kSize = (std::uint64_t{1} << 62) + 1;
  const Permutation permutation(kSize, 3);

  std::set<std::uint64_t> seen;
  for (std::uint64_t place = 0; place < 1000; ++place) seen.insert(permutation(kSize - 1 - place));

  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_LT(*seen.rbegin(), kSize);
}

std::vector<std::int64_t> epoch(const Sampler& sampler, std::int64_t number, std::int64_t size) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < size; ++i) {
    const Draw draw = sampler.draw(number * size + i);
    EXPECT_EQ(draw.epoch, number);
    indices.push_back(draw.index);
  }
  return indices;
}

TEST(Sampler, EveryEpochHoldsEveryExampleOnce) {
  const Sampler sampler(97, 1);
  std::vector<std::int64_t> all(97);
  std::iota(all.begin(), all.end(), 0);

  for (std::int64_t number = 0; number < 20; ++number)
    EXPECT_THAT(epoch(sampler, number, 97), testing::UnorderedElementsAreArray(all));
}

TEST(Sampler, EpochsAndSeedsHaveOrdersOfTheirOwn) {
  std::set<std::vector<std::int64_t>> orders;
  for (const std::int64_t seed : {0, 1, 2, -1})
    for (std::int64_t number = 0; number < 10; ++number)
      orders.insert(epoch(Sampler(97, seed), number, 97));

  EXPECT_EQ(orders.size(), 40U);
}

constexpr std::int64_t kContext = 4;

TEST(Windows, StayInsideAndDoNotOverlap) {
  for (std::int64_t length = kContext + 1; length <= 6 * kContext; ++length) {
    const Windows windows(length, kContext, 5);
    for (std::int64_t number = 0; number < 50; ++number) {
      for (std::int64_t i = 0; i < windows.count(); ++i) {
        const std::int64_t start = windows.start({.epoch = number, .index = i});
        EXPECT_GE(start, 0);
        EXPECT_LE(start + kContext + 1, length);
        EXPECT_EQ(start, windows.start({.epoch = number, .index = 0}) + i * kContext);
      }
    }
  }
}

TEST(Windows, LeaveOutLessThanTwoWindows) {
  for (std::int64_t length = kContext + 1; length <= 50 * kContext; ++length) {
    const std::int64_t targets = Windows(length, kContext, 5).count() * kContext;
    EXPECT_LT(length - 1 - targets, 2 * kContext) << length;
  }
}

TEST(Windows, SeeEveryTokenInSomeEpoch) {
  for (const std::int64_t length : {5, 6, 11, 12, 13, 14, 15, 16, 41}) {
    const Windows windows(length, kContext, 9);
    std::set<std::int64_t> inputs;
    std::set<std::int64_t> targets;
    for (std::int64_t number = 0; number < 200; ++number) {
      for (std::int64_t i = 0; i < windows.count(); ++i) {
        const std::int64_t start = windows.start({.epoch = number, .index = i});
        for (std::int64_t t = 0; t < kContext; ++t) {
          inputs.insert(start + t);
          targets.insert(start + t + 1);
        }
      }
    }
    EXPECT_EQ(static_cast<std::int64_t>(inputs.size()), length - 1) << length;
    EXPECT_EQ(static_cast<std::int64_t>(targets.size()), length - 1) << length;
  }
}

TEST(EvenlySpaced, RunsFromTheFirstToTheLast) {
  const auto spaced = [](std::int64_t count, std::int64_t size) {
    std::vector<std::int64_t> places;
    for (std::int64_t i = 0; i < count; ++i) places.push_back(evenly_spaced(i, count, size));
    return places;
  };
  using testing::ElementsAre;

  EXPECT_THAT(spaced(1, 100), ElementsAre(0));
  EXPECT_THAT(spaced(3, 101), ElementsAre(0, 50, 100));
  EXPECT_THAT(spaced(4, 9), ElementsAre(0, 2, 5, 8));
  EXPECT_THAT(spaced(4, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(spaced(4, 2), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(spaced(2, 1), ElementsAre(0, 0));
}

TEST(EvenlySpaced, DoesNotOverflow) {
  constexpr std::int64_t kSize = std::int64_t{1} << 62;
  EXPECT_EQ(evenly_spaced(999'999, 1'000'000, kSize), kSize - 1);
  EXPECT_EQ(evenly_spaced(1, 3, kSize), (kSize - 1) / 2);
}

}  // namespace
}  // namespace trireme::data
