// SPDX-License-Identifier: Apache-2.0
#include "trireme/checkpoint/numbers.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace trireme::checkpoint {
namespace {

/// Bits of a floating type (IEEE 754): a value whose exponent is all ones is infinite, or NaN where
/// its fraction is not 0.
template <class Word>
struct Bits {
  Word sign, exponent, fraction;
};

constexpr Bits<std::uint64_t> kFloat64{std::uint64_t{1} << 63, std::uint64_t{0x7ff} << 52,
                                       (std::uint64_t{1} << 52) - 1};
constexpr Bits<std::uint32_t> kFloat32{0x80000000U, 0x7f800000U, 0x007fffffU};
constexpr Bits<std::uint16_t> kBfloat16{0x8000U, 0x7f80U, 0x007fU};
constexpr Bits<std::uint16_t> kFloat16{0x8000U, 0x7c00U, 0x03ffU};

/// Values that are checked together: a loop of a known length, which compilers vectorize.
constexpr std::size_t kTogether = 1024;

template <class Word>
bool all_are_finite(const std::array<Word, kTogether>& values, Word exponent) {
  Word found = 0;
  for (const Word value : values)
    found = static_cast<Word>(found | static_cast<Word>((value & exponent) == exponent));
  return found == 0;
}

template <class Word>
std::optional<NoNumber> find(std::span<const std::byte> bytes, const Bits<Word>& bits) {
  std::optional<NoNumber> infinity;
  std::array<Word, kTogether> values{};
  const std::size_t count = bytes.size() / sizeof(Word);
  for (std::size_t begin = 0; begin < count; begin += kTogether) {
    const std::size_t together = std::min(kTogether, count - begin);
    if (together < kTogether) values.fill(0);
    std::memcpy(values.data(), bytes.data() + begin * sizeof(Word), together * sizeof(Word));
    if (all_are_finite(values, bits.exponent)) continue;
    for (std::size_t i = 0; i < together; ++i) {
      if ((values[i] & bits.exponent) != bits.exponent) continue;
      const auto place = static_cast<std::int64_t>(begin + i);
      if ((values[i] & bits.fraction) != 0) return NoNumber{.place = place, .value = "nan"};
      if (!infinity)
        infinity = {.place = place, .value = (values[i] & bits.sign) != 0 ? "-inf" : "inf"};
    }
  }
  return infinity;
}

}  // namespace

std::string NoNumber::text() const {
  return concat(value, " at index ", place);
}

std::optional<NoNumber> find_no_number(std::string_view type, std::span<const std::byte> values) {
  if (type == "F32") return find(values, kFloat32);
  if (type == "BF16") return find(values, kBfloat16);
  if (type == "F16") return find(values, kFloat16);
  if (type == "F64") return find(values, kFloat64);
  return std::nullopt;
}

NoNumberError::NoNumberError(const std::string& file, std::string name, NoNumber value)
    : Error(concat(file, ": tensor '", name, "' would hold ", value.text(),
                   ", must hold only finite numbers")),
      tensor(std::move(name)),
      found(std::move(value)) {}

}  // namespace trireme::checkpoint
