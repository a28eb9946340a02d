// Which values of tensors are NaN or infinite, compared with what IEEE 754 says of their bits.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/checkpoint/numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme::checkpoint {
namespace {

/// The value of `bits` of a type of that many bits of exponent and fraction, as IEEE 754 has it.
double meant_by(std::uint32_t bits, int exponents, int fractions) {
  const std::uint32_t fraction = bits & ((1U << fractions) - 1);
  const std::uint32_t exponent = bits >> fractions & ((1U << exponents) - 1);
  const double sign = bits >> (exponents + fractions) == 0 ? 1 : -1;
  const int bias = (1 << (exponents - 1)) - 1;
  if (exponent == (1U << exponents) - 1)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  const double whole = exponent == 0 ? 0 : 1;
  return sign * std::ldexp(whole + std::ldexp(fraction, -fractions),
                           (exponent == 0 ? 1 : static_cast<int>(exponent)) - bias);
}

std::string text_of(double value) {
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

template <class Word>
std::optional<NoNumber> found_in(const char* type, const std::vector<Word>& values) {
  return find_no_number(type, std::as_bytes(std::span(values)));
}

// Every value that the two types of 16 bits have.
TEST(NoNumber, IsEveryValueOfHalfATypeThatIsNotFinite) {
  struct Half {
    const char* type;
    int exponents, fractions;
  };
  for (const auto& [type, exponents, fractions] : {Half{"F16", 5, 10}, Half{"BF16", 8, 7}}) {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const double value = meant_by(bits, exponents, fractions);
      const auto found = found_in(type, std::vector{static_cast<std::uint16_t>(bits)});
      ASSERT_EQ(found.has_value(), !std::isfinite(value)) << type << ' ' << bits;
      if (found) {
        ASSERT_EQ(found->value, text_of(value)) << type << ' ' << bits;
      }
    }
  }
}

TEST(NoNumber, IsWhatTheLanguageCallsSoOfFloatsAndDoubles) {
  std::mt19937_64 random(5);
  int lost = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::uint64_t bits = random();
    if (i % 4 == 0) bits |= std::uint64_t{0x7ff} << 52;  // not only one in two thousand
    const auto value = std::bit_cast<double>(bits);
    ASSERT_EQ(found_in("F64", std::vector{value}).has_value(), !std::isfinite(value)) << bits;
    auto half = static_cast<std::uint32_t>(bits);
    if (i % 4 == 1) half |= 0x7f800000U;
    const auto single = std::bit_cast<float>(half);
    ASSERT_EQ(found_in("F32", std::vector{single}).has_value(), !std::isfinite(single)) << half;
    lost += static_cast<int>(!std::isfinite(value)) + static_cast<int>(!std::isfinite(single));
  }
  EXPECT_GT(lost, 90'000);
}

// Also if it is the last value and their number is not a multiple of the block size.
TEST(NoNumber, IsFoundAtEveryPlace) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const std::size_t size : {1U, 2U, 1023U, 1024U, 1025U, 3000U}) {
    std::vector<float> values(size, std::numeric_limits<float>::max());
    EXPECT_EQ(found_in("F32", values), std::nullopt);
    for (std::size_t place = 0; place < size; ++place) {
      const float before = std::exchange(values[place], kNan);
      EXPECT_EQ(found_in("F32", values),
                (NoNumber{.place = static_cast<std::int64_t>(place), .value = "nan"}));
      values[place] = before;
    }
  }
}

TEST(NoNumber, IsANanBeforeAnInfinity) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> values(5000, 1.0);
  values[4000] = -kInfinity;
  values[4500] = kInfinity;
  EXPECT_EQ(found_in("F64", values), (NoNumber{.place = 4000, .value = "-inf"}));
  values[4999] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(found_in("F64", values), (NoNumber{.place = 4999, .value = "nan"}));
  EXPECT_EQ(found_in("F64", values)->text(), "nan at index 4999");
}

TEST(NoNumber, IsNoneOfWholeNumbersOrOfNothing) {
  const std::vector<std::uint64_t> ones(3, ~std::uint64_t{0});
  for (const char* const type : {"I64", "I32", "U8", "BOOL"})
    EXPECT_EQ(found_in(type, ones), std::nullopt);
  EXPECT_EQ(find_no_number("F32", {}), std::nullopt);
}

}  // namespace
}  // namespace trireme::checkpoint
