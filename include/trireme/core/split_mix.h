// Pseudorandom bits that are the same on every machine: integers only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace trireme {

/// SplitMix64 (Steele, Lea and Flood 2014): 64 bits of state.
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }

 private:
  std::uint64_t state_;
};

}  // namespace trireme
