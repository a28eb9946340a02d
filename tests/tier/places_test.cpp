// SPDX-License-Identifier: Apache-2.0
#include "trireme/tier/places.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace trireme::tier {
namespace {

TEST(Places, NeverGivesTheSameByteTwiceAndRefusesOnlyWhenTooLittleIsFree) {
  // Oracle: the owner of every byte, one by one.
  constexpr std::size_t kSize = 12'863;
  std::vector<int> owner(kSize, 0);
  Places places{Bytes(kSize)};
  std::mt19937 random(5);
  std::vector<std::pair<int, std::vector<Places::Piece>>> held;
  std::size_t free = kSize;
  int full = 0;
  for (int round = 1; round < 4000; ++round) {
    // Sometimes all that is left, or one byte more.
    const std::size_t size = random() % 5 == 0 ? free + random() % 2 : random() % 3000;
    const auto taken = places.take(Bytes(static_cast<std::int64_t>(size)));
    ASSERT_EQ(taken.has_value(), size <= free) << "round " << round;
    if (taken) {
      std::int64_t got = 0, end = 0;
      for (const Places::Piece& piece : *taken) {
        ASSERT_GT(piece.size, 0);
        ASSERT_GE(piece.offset, end);
        end = piece.offset + piece.size;
        got += piece.size;
        for (std::int64_t byte = piece.offset; byte < end; ++byte) {
          ASSERT_EQ(owner.at(static_cast<std::size_t>(byte)), 0) << "round " << round;
          owner.at(static_cast<std::size_t>(byte)) = round;
        }
      }
      ASSERT_EQ(got, static_cast<std::int64_t>(size));
      free -= size;
      full += free == 0 ? 1 : 0;
      held.emplace_back(round, *taken);
    }
    while (!held.empty() && (free == 0 || random() % 2 == 0)) {
      const std::size_t which = random() % held.size();
      places.give_back(held[which].second);
      for (int& byte : owner) {
        if (byte != held[which].first) continue;
        byte = 0;
        ++free;
      }
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
    }
    ASSERT_EQ(places.used(), Bytes(static_cast<std::int64_t>(kSize - free)));
  }
  EXPECT_GT(full, 100);
}

using Pieces = std::vector<Places::Piece>;

TEST(Places, LieInOnePieceWhereThereIsOne) {
  Places places(Bytes(64 * 10));
  const auto first = places.take(Bytes(64));
  const auto second = places.take(Bytes(64));
  places.give_back(*first);

  EXPECT_EQ(*places.take(Bytes(128)), (Pieces{{128, 128}}));
  EXPECT_EQ(*places.take(Bytes(64 * 7)), (Pieces{{0, 64}, {256, 64 * 6}}));
  EXPECT_EQ(places.used(), places.capacity());
  EXPECT_EQ(places.peak(), places.capacity());
  EXPECT_FALSE(places.take(Bytes(1)));
  EXPECT_EQ(places.take(Bytes(0))->size(), 0U);
}

TEST(Places, BeginAtLinesOnlyWhereThatCostsNothing) {
  Places places(Bytes(200));
  EXPECT_EQ(*places.take(Bytes(3)), (Pieces{{0, 3}}));
  EXPECT_EQ(*places.take(Bytes(65)), (Pieces{{64, 65}}));
  EXPECT_EQ(*places.take(Bytes(70)), (Pieces{{129, 70}}));
  EXPECT_EQ(*places.take(Bytes(62)), (Pieces{{3, 61}, {199, 1}}));
  EXPECT_EQ(places.used(), Bytes(200));
}

}  // namespace
}  // namespace trireme::tier
