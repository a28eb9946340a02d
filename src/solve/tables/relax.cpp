// The min-plus step on columns. Loops run along m over whole aligned blocks, so that the compiler
// turns them into vector instructions without remainders. A sum is always rounded in the same
// order, so that it falls with m as its parts do.
//
// SPDX-License-Identifier: Apache-2.0
#include "relax.h"

#include "vector_versions.h"

#include "trireme/core/error.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <new>

namespace trireme::solve {
namespace {

// What follows is always inlined, so that it is compiled once per version, as part of it.

template <class Float>
[[gnu::always_inline]] inline Float* aligned(Float* values) {
  return static_cast<Float*>(__builtin_assume_aligned(values, kBlock * sizeof(float)));
}

// Values of the block at m, or where the column is flat a block of its last value.
[[gnu::always_inline]] inline const float* block_at(const Column& column, int m) {
  return column.values + (std::min(m, block_of(column.hi) + kBlock) - column.base());
}

// One block, of which only from element `first` on counts.
[[gnu::always_inline]] inline void head(float* __restrict best, const float* left,
                                        const float* right, float runs, int first) {
  best = aligned(best);
#pragma GCC unroll 1  // else it is unrolled before it can become a vector
  for (int k = 0; k < kBlock; ++k) {
    const float sum = runs + (left[k] + right[k]);
    const float counts = k < first ? kNever : sum;
    best[k] = counts < best[k] ? counts : best[k];
  }
}

[[gnu::always_inline]] inline void least_of_sums(float* __restrict best,
                                                 const float* __restrict left,
                                                 const float* __restrict right, float runs,
                                                 int blocks) {
  best = aligned(best);
  left = aligned(left);
#pragma GCC unroll 2
  for (int k = 0; k < blocks * kBlock; ++k) {
    const float sum = runs + (left[k] + right[k]);
    best[k] = sum < best[k] ? sum : best[k];
  }
}

[[gnu::always_inline]] inline void least_of_shifted(float* __restrict best,
                                                    const float* __restrict values, float constant,
                                                    float runs, int blocks) {
  best = aligned(best);
#pragma GCC unroll 2
  for (int k = 0; k < blocks * kBlock; ++k) {
    const float sum = runs + (constant + values[k]);
    best[k] = sum < best[k] ? sum : best[k];
  }
}

[[gnu::always_inline]] inline void least_of_constant(float* __restrict best, float constant) {
  best = aligned(best);
#pragma GCC unroll 1
  for (int k = 0; k < kBlock; ++k) best[k] = constant < best[k] ? constant : best[k];
}

// Where a draft is already at or below the least of what the step can give, counted back from its
// end in strides, nothing needs to be added.
[[gnu::always_inline]] inline int useful_end(const Draft& draft, const Column& left,
                                             const Column& right, int holds, float runs, int from) {
  constexpr int kStride = 8 * kBlock;
  int end = draft.end;
  while (end - from > kStride) {
    const float least = runs + (left.at(end - 1) + right.at(end - 1 - holds));
    if (draft.values[end - kStride] > least) break;
    end -= kStride;
  }
  return end;
}

[[gnu::always_inline]] inline void relax_one(Draft& draft, const Column& left, const Column& right,
                                             int holds, int needs, float runs) {
  const int from = std::max({needs, left.lo, right.lo + holds});
  if (from >= draft.end) return;
  draft.lo = std::min(draft.lo, from);
  float* const best = draft.values;
  const float tail = runs + (left.least + right.least);
  if (best[from] <= tail) return;
  const int end = useful_end(draft, left, right, holds, runs, from);
  const int left_flat = std::min(end, left.hi), right_flat = std::min(end, right.hi + holds);
  int m = block_of(from);
  if (m < from) {
    head(best + m, block_at(left, m), block_at(right, m - holds), runs, from - m);
    m += kBlock;
  }
  if (const int both = std::min(left_flat, right_flat); m < both) {
    const int blocks = (both - m + kBlock - 1) / kBlock;
    least_of_sums(best + m, left.values + (m - left.base()),
                  right.values + (m - holds - right.base()), runs, blocks);
    m += blocks * kBlock;
  }
  if (m < left_flat) {
    const int blocks = (left_flat - m + kBlock - 1) / kBlock;
    least_of_shifted(best + m, left.values + (m - left.base()), right.least, runs, blocks);
    m += blocks * kBlock;
  } else if (m < right_flat) {
    const int blocks = (right_flat - m + kBlock - 1) / kBlock;
    least_of_shifted(best + m, right.values + (m - holds - right.base()), left.least, runs, blocks);
    m += blocks * kBlock;
  }
  for (; m < end && best[m] > tail; m += kBlock) least_of_constant(best + m, tail);
}

alignas(kBlock * sizeof(float)) constexpr std::array<float, 3 * kBlock> kZeros{};

}  // namespace

Column free_column(int from) {
  // Read at a shift, the block before `from` is never used: steps begin where both sides do.
  return {.values = kZeros.data() + kBlock, .lo = from, .hi = from, .least = 0};
}

void Draft::clear(float* memory, int until) {
  values = memory;
  end = until;
  lo = until;
  std::fill_n(values, block_of(end + kBlock - 1), kNever);
}

TRIREME_VECTOR_VERSIONS
void relax(Draft& draft, const Steps& steps) {
  for (int j = 0; j < steps.count; ++j) {
    relax_one(draft, steps.left[j], steps.right[j], steps.holds[j],
              steps.load + std::max(steps.run[j], steps.least[j]),
              static_cast<float>(steps.prefix[j] - steps.before));
  }
}

TRIREME_VECTOR_VERSIONS
void relax(Draft& draft, const Step& step) {
  relax_one(draft, step.left, step.right, step.holds, step.needs, step.runs);
}

namespace {

/// Chunks of freed tables for the next ones, up to 128 MiB, which the system need not clear again.
class SpareChunks {
 public:
  float* take() {
    const std::scoped_lock lock(mutex_);
    if (chunks_.empty()) return nullptr;
    float* const chunk = chunks_.back();
    chunks_.pop_back();
    return chunk;
  }
  /// False where there are enough.
  bool keep(float* chunk) {
    const std::scoped_lock lock(mutex_);
    if (chunks_.size() == kMost) return false;
    chunks_.push_back(chunk);
    return true;
  }

 private:
  static constexpr std::size_t kMost = 512;
  std::mutex mutex_;
  std::vector<float*> chunks_;
};

/// Never destroyed: tables may end after static objects.
SpareChunks& spare_chunks() {
  static SpareChunks& spare = *new SpareChunks;
  return spare;
}

}  // namespace

AlignedFloats aligned_floats(std::size_t count) {
  return AlignedFloats(static_cast<float*>(
      ::operator new[](count * sizeof(float), std::align_val_t{kBlock * sizeof(float)})));
}

Arena::Chunk Arena::new_chunk() {
  if (float* const chunk = spare_chunks().take()) return Chunk(chunk);
  void* const pages = ::mmap(nullptr, kChunk * sizeof(float), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  return Chunk(static_cast<float*>(pages));
}

void Arena::Unmap::operator()(float* chunk) const {
  if (!spare_chunks().keep(chunk)) ::munmap(chunk, kChunk * sizeof(float));
}

Column Arena::store(const float* values, int lo, int hi) {
  ensure(hi < kLongest, "a column has more slots than a table takes");
  const int base = block_of(lo), end = block_of(hi) + kBlock;
  const std::size_t count = static_cast<std::size_t>(end - base) + kBlock;
  if (used_ + count > kChunk) {
    chunks_.push_back(new_chunk());
    std::fill_n(chunks_.back().get(), kBlock, kNever);
    used_ = kBlock;
  }
  float* place = chunks_.back().get() + used_;
  used_ += count;
  std::fill_n(place, lo - base, kNever);
  std::copy(values + lo, values + hi + 1, place + (lo - base));
  std::fill(place + (hi + 1 - base), place + count, values[hi]);
  return {.values = place, .lo = lo, .hi = hi, .least = values[hi]};
}

Column finish(const Draft& draft, Arena& arena) {
  if (draft.lo >= draft.end) return {};
  const float least = draft.values[draft.end - 1];
  const float* flat = std::lower_bound(draft.values + draft.lo, draft.values + draft.end, least,
                                       [](float value, float bound) { return value > bound; });
  return arena.store(draft.values, draft.lo, static_cast<int>(flat - draft.values));
}

}  // namespace trireme::solve
