// Random numbers that are the same on every machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace trireme::schedule {

/// SplitMix64 (Steele, Lea and Flood 2014): 64 bits of state, whole numbers alone.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }

  /// 0 to `end` - 1; `end` is at most 2^31.
  int below(int end) {
    const std::uint64_t high = bits() >> 32U;
    return static_cast<int>((high * static_cast<std::uint64_t>(end)) >> 32U);
  }

  /// 2^16 times the binary logarithm of 1/u, u drawn evenly from (0, 1): the bits behind the
  /// leading one serve as the logarithm of what it leaves (Mitchell 1962), which is off by 0.09 at
  /// most and needs no library whose last digit depends on the machine.
  std::int64_t logarithm() {
    const std::uint64_t drawn = bits() | 1U;
    const int zeros = std::countl_zero(drawn);
    const std::uint64_t rest = zeros == 63 ? 0 : (drawn << (zeros + 1)) >> 48U;
    return ((static_cast<std::int64_t>(zeros) + 1) << 16U) - static_cast<std::int64_t>(rest);
  }

 private:
  std::uint64_t state_;
};

}  // namespace trireme::schedule
