// A pseudorandom stream that is the same on every machine: integers only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trireme::data {

/// SplitMix64 (Steele, Lea and Flood 2014).
class Stream {
 public:
  explicit Stream(std::uint64_t key) : state_(key) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  /// A bell curve around 0: the sum of four uniform 16-bit numbers, less its mean. Its standard
  /// deviation is kBellDeviation, its largest value below 2^17.
  std::int64_t bell() {
    const std::uint64_t word = next();
    const std::uint64_t sum =
        (word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48);
    return static_cast<std::int64_t>(sum) - 2 * 0xffff;
  }

  static constexpr double kBellDeviation = 37837.0;  ///< sqrt(4 (2^32 - 1) / 12), rounded

 private:
  std::uint64_t state_;
};

}  // namespace trireme::data
