// A column of a table: the cost of one sub-chain as a function of m, stored only where it changes.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>

namespace trireme::solve {

inline constexpr float kNever = std::numeric_limits<float>::infinity();

/// Loops run over whole blocks of this many m, aligned to a multiple of it: one vector of the
/// widest kind, four of the narrowest.
inline constexpr int kBlock = 16;
constexpr int block_of(int m) {
  return m / kBlock * kBlock;
}

/// Seconds beyond sum(f + b). Infinite below `lo`, constant from `hi` on, non-increasing between.
/// Does not own its values: they begin at m = base, a multiple of kBlock, at an aligned address. A
/// block of `least` follows them and a readable block without meaning precedes them, so that whole
/// blocks can be read at any shift.
struct Column {
  const float* values = nullptr;  ///< at m = base, base + 1, ...; null: infinite everywhere
  int lo = std::numeric_limits<int>::max() / 2;
  int hi = std::numeric_limits<int>::max() / 2;
  float least = kNever;  ///< the value at hi

  bool feasible() const { return values != nullptr; }
  int base() const { return block_of(lo); }
  float at(int m) const { return m < lo ? kNever : m >= hi ? least : values[m - base()]; }
};

}  // namespace trireme::solve
