// SPDX-License-Identifier: Apache-2.0
#include "trireme/tier/places.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace trireme::tier {
namespace {

TEST(Places, NeverGivesTheSameByteTwiceAndRefusesOnlyWhenTooLittleIsFree) {
  // Oracle: the owner of every unit of 64 bytes, one by one.
  constexpr std::size_t kUnits = 200;
  std::vector<int> owner(kUnits, 0);
  Places places(Bytes(64 * kUnits + 63));
  std::mt19937 random(5);
  std::vector<std::pair<int, std::vector<Places::Piece>>> held;
  std::size_t free = kUnits;
  for (int round = 1; round < 2000; ++round) {
    const auto size = static_cast<std::int64_t>(random() % 3000);
    const auto units = static_cast<std::size_t>((size + 63) / 64);
    const auto taken = places.take(Bytes(size));
    ASSERT_EQ(taken.has_value(), units <= free) << "round " << round;
    if (taken) {
      std::size_t got = 0;
      for (const Places::Piece& piece : *taken) {
        ASSERT_EQ(piece.offset % 64, 0);
        for (std::int64_t u = piece.offset / 64; u < (piece.offset + piece.size) / 64; ++u, ++got) {
          ASSERT_EQ(owner.at(static_cast<std::size_t>(u)), 0) << "round " << round;
          owner.at(static_cast<std::size_t>(u)) = round;
        }
      }
      ASSERT_EQ(got, units);
      free -= units;
      held.emplace_back(round, *taken);
    }
    if (held.empty() || random() % 2 == 0) continue;
    const std::size_t which = random() % held.size();
    places.give_back(held[which].second);
    for (int& unit : owner) {
      if (unit != held[which].first) continue;
      unit = 0;
      ++free;
    }
    held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
    ASSERT_EQ(places.used(), Bytes(static_cast<std::int64_t>(64 * (kUnits - free))));
  }
}

TEST(Places, LieInOnePieceWhereThereIsOne) {
  Places places(Bytes(64 * 10));
  const auto first = places.take(Bytes(64));
  const auto second = places.take(Bytes(64));
  places.give_back(*first);

  EXPECT_EQ(*places.take(Bytes(128)), (std::vector<Places::Piece>{{128, 128}}));
  EXPECT_EQ(*places.take(Bytes(64 * 7)), (std::vector<Places::Piece>{{0, 64}, {256, 64 * 6}}));
  EXPECT_EQ(places.used(), places.capacity());
  EXPECT_EQ(places.peak(), places.capacity());
  EXPECT_FALSE(places.take(Bytes(1)));
  EXPECT_EQ(places.take(Bytes(0))->size(), 0U);
}

}  // namespace
}  // namespace trireme::tier
