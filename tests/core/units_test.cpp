// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/units.h"

#include <gtest/gtest.h>

#include <concepts>
#include <type_traits>

namespace trireme {
namespace {

TEST(Units, AreAddedAndScaled) {
  Bytes size(100);

  size += Bytes(10);
  size -= Bytes(1);

  EXPECT_EQ(size, Bytes(109));
  EXPECT_EQ(size + Bytes(1) - Bytes(10), Bytes(100));
  EXPECT_EQ(2 * Bytes(7), Bytes(7) * 2);
  EXPECT_EQ(-Bytes(7), Bytes(-7));
  EXPECT_EQ(Seconds(3) / 2, Seconds(1.5));
}

TEST(Units, BeginAtZero) {
  EXPECT_EQ(Bytes(), Bytes(0));
  EXPECT_EQ(Seconds{}.count(), 0.0);
}

TEST(Units, RatioOfTwoQuantitiesIsANumber) {
  static_assert(std::same_as<decltype(Bytes(1) / Bytes(1)), double>);
  EXPECT_DOUBLE_EQ(Bytes(1) / Bytes(4), 0.25);
}

TEST(Units, SizeOverRateIsATime) {
  static_assert(std::same_as<decltype(Bytes(1) / BytesPerSecond(1)), Seconds>);
  EXPECT_EQ(Bytes(1000) / BytesPerSecond(100), Seconds(10));
}

TEST(Units, AreNotMixedByAccident) {
  static_assert(!std::is_convertible_v<int, Bytes>);
  static_assert(!std::is_convertible_v<Bytes, std::int64_t>);
  static_assert(!std::is_convertible_v<Bytes, Seconds>);
  EXPECT_LT(Bytes(1), Bytes(2));
}

}  // namespace
}  // namespace trireme
