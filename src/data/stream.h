// A pseudorandom stream that is the same on every machine: integers only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/split_mix.h"

#include <cstdint>

namespace trireme::data {

class Stream : public SplitMix {
 public:
  using SplitMix::SplitMix;

  /// A bell curve around 0: the sum of four uniform 16-bit numbers, less its mean. Its standard
  /// deviation is kBellDeviation, its largest value below 2^17.
  std::int64_t bell() {
    const std::uint64_t word = next();
    const std::uint64_t sum =
        (word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48);
    return static_cast<std::int64_t>(sum) - 2 * 0xffff;
  }

  static constexpr double kBellDeviation = 37837.0;  ///< sqrt(4 (2^32 - 1) / 12), rounded
};

}  // namespace trireme::data
