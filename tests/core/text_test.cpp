// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/text.h"

#include "trireme/core/error.h"
#include "trireme/core/visible.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace trireme {
namespace {

TEST(Join, PutsTheSeparatorBetweenAllParts) {
  const std::vector<std::string> parts{"", "a", "", "b"};
  EXPECT_EQ(join(parts, ", "), ", a, , b");
  EXPECT_EQ(join(std::vector<std::string>{}, ", "), "");
}

TEST(Enumerated, EndsWithAnAnd) {
  const auto of = [](const std::vector<std::string>& parts) { return enumerated(parts); };
  EXPECT_EQ(of({}), "");
  EXPECT_EQ(of({"a"}), "a");
  EXPECT_EQ(of({"a", "b"}), "a and b");
  EXPECT_EQ(of({"a", "b", "c"}), "a, b and c");
}

TEST(RangeText, IsOneNumberWhereBothEndsAreTheSame) {
  EXPECT_EQ(range_text(3, 5), "3..5");
  EXPECT_EQ(range_text(3, 3), "3");
}

TEST(Split, KeepsEmptyPieces) {
  EXPECT_EQ(split("a.b", '.'), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(split(".a.", '.'), (std::vector<std::string>{"", "a", ""}));
  EXPECT_EQ(split("", '.'), (std::vector<std::string>{""}));
}

TEST(ToText, ShowsSizesWithThreeDigits) {
  EXPECT_EQ(to_text(Bytes(0)), "0 B");
  EXPECT_EQ(to_text(Bytes(1023)), "1023 B");
  EXPECT_EQ(to_text(Bytes(1024)), "1.00 KiB");
  EXPECT_EQ(to_text(Bytes(3 << 19)), "1.50 MiB");
  EXPECT_EQ(to_text(Bytes(std::int64_t{12} << 30)), "12.0 GiB");
  EXPECT_EQ(to_text(Bytes(std::int64_t{300} << 40)), "300 TiB");
  EXPECT_EQ(to_text(Bytes(-2048)), "-2.00 KiB");
  EXPECT_EQ(to_text(Bytes(std::numeric_limits<std::int64_t>::min())), "-8.00 EiB");
}

TEST(ToText, ShowsTimesInTheUnitThatFits) {
  EXPECT_EQ(to_text(Seconds(1.5)), "1.50 s");
  EXPECT_EQ(to_text(Seconds(0.0032)), "3.20 ms");
  EXPECT_EQ(to_text(Seconds(4.5e-5)), "45.0 us");
  EXPECT_EQ(to_text(Seconds(7e-9)), "7.00 ns");
  EXPECT_EQ(to_text(Seconds(61)), "1:01 min");
  EXPECT_EQ(to_text(Seconds(3 * 3600 + 4 * 60 + 5)), "3:04:05 h");
}

TEST(ToText, ShowsRatesInPowersOfAThousand) {
  EXPECT_EQ(to_text(BytesPerSecond(1.25e9)), "1.25 GB/s");
  EXPECT_EQ(to_text(BytesPerSecond(12)), "12.0 B/s");
}

TEST(ToText, OfADoubleReadsBackAsTheSameDouble) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-300, 300);
  for (int i = 0; i < 1000; ++i) {
    const double value = std::pow(10.0, exponent(random));
    EXPECT_EQ(std::stod(to_text(value)), value);
  }
  EXPECT_EQ(to_text(0.1), "0.1");
  EXPECT_EQ(to_text(3.0), "3");
}

TEST(ParseBytes, KnowsBinaryAndDecimalUnits) {
  EXPECT_EQ(parse_bytes("4096"), Bytes(4096));
  EXPECT_EQ(parse_bytes("0"), Bytes(0));
  EXPECT_EQ(parse_bytes("12GiB"), Bytes(std::int64_t{12} << 30));
  EXPECT_EQ(parse_bytes("1.5 MB"), Bytes(1'500'000));
  EXPECT_EQ(parse_bytes("80KiB"), Bytes(80 * 1024));
  EXPECT_EQ(parse_bytes("2TB"), Bytes(2'000'000'000'000));
  EXPECT_EQ(parse_bytes(" 7 B "), Bytes(7));
}

TEST(ParseBytes, IsExactForWholeBytes) {
  EXPECT_EQ(parse_bytes("9007199254740993"), Bytes(9007199254740993));
  EXPECT_EQ(parse_bytes("4611686018427387904"), Bytes(std::int64_t{1} << 62));
}

TEST(ParseBytes, RefusesWhatIsNoSize) {
  for (const char* text : {"",
                           " ",
                           "-1",
                           "-1KiB",
                           "x",
                           "1 KiBs",
                           "1gib",
                           "GiB",
                           "1e",
                           "nan",
                           "inf",
                           "1,5",
                           "0x10",
                           "1_000",
                           "4611686018427387905",
                           "5EB",
                           "1e30",
                           "8192PiB",
                           "99999999999999999999",
                           "--1",
                           "0.4",
                           "1.5 B",
                           "1 2"}) {
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
  }
}

TEST(ParseSeconds, KnowsUnitsFromNanosecondsToHours) {
  EXPECT_EQ(parse_seconds("60s"), Seconds(60));
  EXPECT_EQ(parse_seconds("1.5 ms"), Seconds(1.5e-3));
  EXPECT_EQ(parse_seconds("2min"), Seconds(120));
  EXPECT_EQ(parse_seconds("1h"), Seconds(3600));
  EXPECT_EQ(parse_seconds("250us"), Seconds(250e-6));
  EXPECT_EQ(parse_seconds("0.25"), Seconds(0.25));
  EXPECT_EQ(parse_seconds("5us"), Seconds(5e-6));
  EXPECT_EQ(parse_seconds("3 ns"), Seconds(3e-9));
}

TEST(ParseSeconds, RefusesWhatIsNoTime) {
  for (const char* text : {"", "-1", "-1s", "1 S", "1 sec", "s", "inf", "nan", "1e999", "1e308h"})
    EXPECT_EQ(parse_seconds(text), std::nullopt) << text;
}

TEST(NearestWord, FindsASlipOfTheFinger) {
  const std::vector<std::string> words{"steps", "batch", "seed"};
  EXPECT_EQ(nearest_word("stepz", words), "steps");
  EXPECT_EQ(nearest_word("step", words), "steps");
  EXPECT_EQ(nearest_word("tseps", words), "steps");
  EXPECT_EQ(nearest_word("esed", words), "seed");
  EXPECT_EQ(did_you_mean("bach", words), " (did you mean 'batch'?)");
}

TEST(NearestWord, IsEmptyForAnotherWord) {
  const std::vector<std::string> words{"steps", "batch"};
  EXPECT_EQ(nearest_word("momentum", words), "");
  EXPECT_EQ(did_you_mean("momentum", words), "");
  EXPECT_EQ(did_you_mean("x", std::vector<std::string>{"y", "z"}), "");
  EXPECT_EQ(did_you_mean("", std::vector<std::string>{"y"}), "");
}

TEST(Table, AlignsNumbersToTheRight) {
  EXPECT_EQ(table({{"layer", "bytes"}, {"embed", "5"}, {"h", "12"}}),
            "layer  bytes\n"
            "-----  -----\n"
            "embed      5\n"
            "h         12\n");
}

TEST(Table, CountsCharactersNotBytes) {
  EXPECT_EQ(table({{"a", "b"}, {"µs", "x"}}),
            "a   b\n"
            "--  -\n"
            "µs  x\n");
}

TEST(Table, RefusesARowOfAnotherLength) {
  EXPECT_THROW(table({{"a", "b"}, {"c"}}), LogicError);
}

TEST(Visible, IsOneLineWithoutControlCharacters) {
  EXPECT_EQ(visible("a\nb\r\tc"), "a\\nb\\r\\tc");
  EXPECT_EQ(visible(std::string("\0\x1b\x7f", 3)), "\\u0000\\u001b\\u007f");
  EXPECT_EQ(visible("\xc2\x80\xc2\x9f\xc2\xa0"), "\\u0080\\u009f\xc2\xa0");
  EXPECT_EQ(visible("\xe2\x80\xa8\xe2\x80\xaa\xe2\x81\xa9"), "\\u2028\\u202a\\u2069");
  EXPECT_EQ(visible("\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f"), "\\u061c\\u200e\\u200f");
}

// Vectors of the Unicode Standard, table 3-7: what is no well-formed UTF-8.
TEST(Visible, ShowsBytesThatAreNoUtf8) {
  EXPECT_EQ(visible("\xc0\xaf"), "\\xc0\\xaf");
  EXPECT_EQ(visible("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(visible("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(visible("a\x9b"
                    "31m\xe2\x82"),
            "a\\x9b31m\\xe2\\x82");
}

TEST(Visible, LeavesLettersOfAllKindsAlone) {
  for (const char* const text : {"", "block1.mlp", "\xc3\xa9", "\xd7\x90\xd7\x91", "\xef\xbf\xbd",
                                 "\xf0\x9f\x9a\xa3", "\\n"}) {
    EXPECT_EQ(visible(text), text);
    EXPECT_TRUE(is_visible(text));
  }
}

TEST(Table, HasALineForEveryRowWhateverIsInItsCells) {
  EXPECT_EQ(table({{"name"}, {"a\nb\x1b"}}), "name\n----------\na\\nb\\u001b\n");
}

/// While it lives, large allocations of its thread fail.
class NoMemory {
 public:
  NoMemory() { is_on() = true; }
  ~NoMemory() { is_on() = false; }
  static bool& is_on() {
    thread_local bool on = false;
    return on;
  }
};

TEST(Concat, ThrowsWhereMemoryEndsRatherThanEndItsText) {
  const std::string large(1 << 20, 'x');
  const NoMemory from_here_on;
  EXPECT_THROW(concat(large, large), std::bad_alloc);
}

}  // namespace
}  // namespace trireme

void* operator new(std::size_t size) {
  constexpr std::size_t kSmall = 1 << 16;
  void* const memory =
      trireme::NoMemory::is_on() && size > kSmall ? nullptr : std::malloc(size);  // NOLINT
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);  // NOLINT
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);  // NOLINT
}
