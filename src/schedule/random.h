// Random numbers that are the same on every machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/split_mix.h"

#include <bit>
#include <cstdint>

namespace trireme::schedule {

/// Whole numbers alone.
class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}

  std::uint64_t bits() { return bits_.next(); }

  /// 0 to `end` - 1; `end` is at most 2^31.
  int below(int end) {
    const std::uint64_t high = bits() >> 32U;
    return static_cast<int>((high * static_cast<std::uint64_t>(end)) >> 32U);
  }

  /// 2^16 times the binary logarithm of 1/u, u drawn evenly from (0, 1): the bits after the
  /// leading one serve as the logarithm of what it leaves (Mitchell 1962), which is off by 0.09 at
  /// most and needs no library whose last digit depends on the machine.
  std::int64_t logarithm() {
    const std::uint64_t drawn = bits() | 1U;
    const int zeros = std::countl_zero(drawn);
    const std::uint64_t rest = zeros == 63 ? 0 : (drawn << (zeros + 1)) >> 48U;
    return ((static_cast<std::int64_t>(zeros) + 1) << 16U) - static_cast<std::int64_t>(rest);
  }

 private:
  SplitMix bits_;
};

}  // namespace trireme::schedule
