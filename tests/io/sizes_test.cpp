// SPDX-License-Identifier: Apache-2.0
#include "trireme/io/sizes.h"

#include "trireme/core/text.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme::io {
namespace {

TEST(Sizes, WithAnotherUnitAreTold) {
  EXPECT_EQ(size_meant_by("10G"), " (did you mean '10GiB'?)");
  EXPECT_EQ(size_meant_by("1.5 gb"), " (did you mean '1.5GiB'?)");
  EXPECT_EQ(size_meant_by("512m"), " (did you mean '512MiB'?)");
  for (const char* const other : {"", "G", "10", "10X", "-1G", "80%", "abc", "1e30G"})
    EXPECT_EQ(size_meant_by(other), "") << other;
}

TEST(Sizes, WithoutAUnitAreToldWhereTheyAreNoMemory) {
  EXPECT_EQ(forgotten_unit("1"), ", which is 1 byte (did you mean '1GiB'?)");
  EXPECT_EQ(forgotten_unit("10"), ", which is 10 bytes (did you mean '10GiB'?)");
  EXPECT_EQ(forgotten_unit("8000"), ", which is 8000 bytes (did you mean '8000MiB'?)");
  for (const char* const meant : {"0", "65536", "10B", "10GiB", "auto", "80%"})
    EXPECT_EQ(forgotten_unit(meant), "") << meant;
}

TEST(Sizes, ThatAreSaidAreNeverLessAndHardlyMore) {
  EXPECT_EQ(size_of_at_least(Bytes(99600384)), "95MiB");
  EXPECT_EQ(size_of_at_least(Bytes(29289601288)), "27.3GiB");
  EXPECT_EQ(size_of_at_least(Bytes(1023)), "1023");
  for (std::int64_t size = 1; size < (std::int64_t{1} << 50); size += size / 7 + 1) {
    const auto said = parse_bytes(size_of_at_least(Bytes(size)));
    ASSERT_TRUE(said.has_value()) << size;
    EXPECT_GE(said->count(), size);
    EXPECT_LE(static_cast<double>(said->count()), static_cast<double>(size) * 1.011);
  }
}

TEST(Times, ThatAreSaidAreNeverLessAndHardlyMore) {
  EXPECT_EQ(time_of_at_least(Seconds(2.951)), "2.96s");
  EXPECT_EQ(time_of_at_least(Seconds(29)), "29s");
  EXPECT_EQ(time_of_at_least(Seconds(0.0121)), "12.1ms");
  EXPECT_EQ(time_of_at_least(Seconds(147e-6)), "147us");
  for (int k = 0; k < 2300; ++k) {  // from 10 ns to ten days
    const double time = 1e-8 * std::pow(1.0137, k);
    const auto said = parse_seconds(time_of_at_least(Seconds(time)));
    ASSERT_TRUE(said.has_value()) << time;
    EXPECT_GE(said->count(), time);
    EXPECT_LE(said->count(), time * 1.0101);
  }
}

}  // namespace
}  // namespace trireme::io
