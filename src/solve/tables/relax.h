// The min-plus step on columns, which takes nearly all planning time, and the memory of columns.
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/solve/column.h"

#include <cstddef>
#include <memory>
#include <new>
#include <vector>

namespace trireme::solve {

/// Column that is 0 for every m >= from; from = 0: an empty sub-chain, which costs nothing.
Column free_column(int from);

/// One decision: right is read at m - holds, left at m, from m = needs on.
struct Step {
  Column left, right;
  int holds = 0, needs = 0;
  float runs = 0;
};

/// Consecutive decisions, j = 0..count-1: left[j], right[j]; holds[j]; needs = load + max(run[j],
/// least[j]); runs = prefix[j] - before.
struct Steps {
  const Column* left;
  const Column* right;
  const int* holds;
  const int* run;
  const int* least;
  const double* prefix;
  double before = 0;
  int load = 0, count = 0;
};

/// A column while it is computed, in memory of its owner: blocks up to `end`, aligned. Every step
/// is non-increasing in m, so their least is, too.
struct Draft {
  float* values = nullptr;  ///< at m = 0, 1, ... ...
  int end = 0;              ///< nothing at `end` or beyond matters
  int lo = 0;               ///< least feasible m so far, `end` if none

  void clear(float* memory, int until);
};

/// values[m] = min(values[m], runs + (left(m) + right(m - holds))) for every m >= needs.
void relax(Draft& draft, const Step& step);
/// The same for all steps, one after the other.
void relax(Draft& draft, const Steps& steps);

/// Memory for floats at an address that fits the widest vectors.
struct AlignedDelete {
  void operator()(float* memory) const {
    ::operator delete[](memory, std::align_val_t{kBlock * sizeof(float)});
  }
};
using AlignedFloats = std::unique_ptr<float[], AlignedDelete>;
AlignedFloats aligned_floats(std::size_t count);

/// Owns the values of finished columns, in chunks that never move: the system's own pages, because
/// malloc would keep those of freed tables.
class Arena {
 public:
  /// Largest m of a column.
  static constexpr int kLongest = 1 << 16;
  Column store(const float* values, int lo, int hi);
  std::size_t size() const { return chunks_.size() * kChunk * sizeof(float); }

 private:
  static constexpr std::size_t kChunk = kLongest + 4 * kBlock;
  struct Unmap {
    void operator()(float* chunk) const;
  };
  using Chunk = std::unique_ptr<float[], Unmap>;
  static Chunk new_chunk();

  std::vector<Chunk> chunks_;
  std::size_t used_ = kChunk;
};

/// Cuts a draft where it is flat and stores it; its last value holds for all larger m.
Column finish(const Draft& draft, Arena& arena);

}  // namespace trireme::solve
