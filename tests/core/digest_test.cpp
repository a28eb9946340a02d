// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/digest.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>
#include <set>
#include <string>

namespace trireme {
namespace {

// The value of XXH3-128 for no bytes and seed 0, as every xxhash since 0.8.0 gives it.
TEST(Digest, OfNothingIsXxhashsOwn) {
  EXPECT_EQ(digest(""), "99aa06d3014798d86001c324468d497f");
}

TEST(Digest, HasThirtyTwoHexDigits) {
  for (std::size_t size = 0; size < 600; size += 7) {
    const std::string text = digest(std::string(size, 'x'));
    EXPECT_EQ(text.size(), 32U);
    EXPECT_EQ(text.find_first_not_of("0123456789abcdef"), std::string::npos);
  }
}

TEST(Digest, ChangesWithEveryByte) {
  std::set<std::string> seen;
  std::string text(300, 'a');
  for (char& c : text) {
    c = 'b';
    seen.insert(digest(text));
    c = 'a';
  }
  EXPECT_EQ(seen.size(), text.size());
}

TEST(Digest, OfBytesAndOfTextAgree) {
  const std::array<unsigned char, 3> bytes{'a', 'b', 'c'};
  EXPECT_EQ(digest(bytes.data(), bytes.size()), digest("abc"));
}

TEST(Mix, DependsOnEveryWordAndItsPlace) {
  const std::set<std::uint64_t> values{mix(1, 2, 3, 4), mix(2, 1, 3, 4), mix(1, 2, 4, 3),
                                       mix(0, 2, 3, 4), mix(1, 0, 3, 4), mix(1, 2, 0, 4),
                                       mix(1, 2, 3, 0), mix(0, 0, 0, 0)};
  EXPECT_EQ(values.size(), 8U);
}

// Avalanche: one bit of any word turns about half of the 64 bits of the result; over 512 trials the
// mean of a fair coin stays within 32 +- 1 but for one case in 10^8.
TEST(Mix, TurnsHalfOfTheBitsWithOne) {
  int turned = 0;
  int trials = 0;
  for (std::uint64_t word = 0; word < 8; ++word) {
    for (int bit = 0; bit < 64; ++bit, ++trials)
      turned += std::popcount(mix(word, 5, 7, 9) ^ mix(word ^ (1ULL << bit), 5, 7, 9));
  }
  const double mean = static_cast<double>(turned) / trials;
  EXPECT_GT(mean, 31.0);
  EXPECT_LT(mean, 33.0);
}

}  // namespace
}  // namespace trireme
