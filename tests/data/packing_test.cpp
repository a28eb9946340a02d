// SPDX-License-Identifier: Apache-2.0
#include "packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace trireme::data {
namespace {

using Numbers = std::vector<std::int64_t>;

std::vector<Numbers> packed(const Numbers& lengths, std::int64_t capacity) {
  Numbers documents(lengths.size());
  std::iota(documents.begin(), documents.end(), 0);
  const Rows rows = packed_rows(documents, lengths, capacity);
  std::vector<Numbers> all;
  for (std::int64_t row = 0; row < rows.size(); ++row)
    all.emplace_back(rows[row].begin(), rows[row].end());
  return all;
}

TEST(PackedRows, TakeTheLongestFirstEachWhereItLeavesTheLeastRoom) {
  // 6 and 5 start rows; 4 fits the first exactly, 3 the second, 2 the rest of the second.
  EXPECT_THAT(packed({2, 5, 4, 6, 3}, 10), testing::ElementsAre(Numbers{2, 3}, Numbers{0, 1, 4}));
  EXPECT_THAT(packed({10, 10}, 10), testing::ElementsAre(Numbers{0}, Numbers{1}));
  EXPECT_THAT(packed({}, 10), testing::IsEmpty());
}

TEST(PackedRows, HoldEveryGivenDocumentOnceInItsOrder) {
  const Rows rows = packed_rows(Numbers{7, 2, 5}, Numbers{9, 9, 3, 9, 9, 3, 9, 3}, 9);
  ASSERT_EQ(rows.size(), 1);
  EXPECT_THAT(rows[0], testing::ElementsAre(7, 2, 5));
}

/// At most 11/9 times the rows of an exhaustive search, plus two thirds (Dosa 2007).
TEST(PackedRows, AreNearlyAsFewAsCanBe) {
  std::mt19937 random(1);
  constexpr std::int64_t kCapacity = 20;
  for (int round = 0; round < 200; ++round) {
    Numbers lengths(8);
    for (std::int64_t& length : lengths)
      length = std::uniform_int_distribution<std::int64_t>(2, kCapacity)(random);
    // Trying all orders of documents, each put into the current row or the next, finds the minimum.
    Numbers order = lengths;
    std::sort(order.begin(), order.end());
    std::int64_t fewest = 8;
    do {
      std::int64_t rows = 1, left = kCapacity;
      for (const std::int64_t length : order) {
        if (length > left) {
          ++rows;
          left = kCapacity;
        }
        left -= length;
      }
      fewest = std::min(fewest, rows);
    } while (std::next_permutation(order.begin(), order.end()));

    const std::vector<Numbers> rows = packed(lengths, kCapacity);
    EXPECT_LE(9 * static_cast<std::int64_t>(rows.size()), 11 * fewest + 6);
    Numbers seen;
    for (const Numbers& row : rows) {
      std::int64_t sum = 0;
      for (const std::int64_t document : row) sum += lengths[static_cast<std::size_t>(document)];
      EXPECT_LE(sum, kCapacity);
      seen.insert(seen.end(), row.begin(), row.end());
    }
    EXPECT_THAT(seen, testing::UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  }
}

}  // namespace
}  // namespace trireme::data
