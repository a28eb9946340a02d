// Helpers that the kernels of this folder share. The kernels do in one pass over memory what
// LibTorch does in several, or in slow ones. NVRTC compiles them as one text, this file first, when
// a GPU is opened, without any header. All of them sum in an order that depends on shapes alone:
// the same bits every time.
//
// bf16: the bits of a bfloat16. Tensors are contiguous and, unless it is said otherwise, begin at a
// multiple of 16 bytes and have rows of a multiple of 8 values.
// SPDX-License-Identifier: Apache-2.0

using bf16 = unsigned short;
using Index = long long;

/// Eight values: what one memory access takes.
struct alignas(16) Eight {
  bf16 of[8];
};

/// Eight as it is loaded: two values in each of four registers.
struct alignas(16) Packed {
  unsigned of[4];
};

struct alignas(16) Four {
  float of[4];
};

__device__ inline float wide(bf16 x) {
  return __uint_as_float(static_cast<unsigned>(x) << 16);
}

__device__ inline float wide(const Packed& x, int j) {
  return __uint_as_float(j % 2 == 0 ? x.of[j / 2] << 16 : x.of[j / 2] & 0xffff0000U);
}

__device__ inline Packed packed(const bf16* place) {
  return *reinterpret_cast<const Packed*>(place);
}

/// Rounds to the nearest, ties to even.
__device__ inline bf16 narrow(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  bf16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(x));
  return result;
#else
  const unsigned bits = __float_as_uint(x);
  if (x != x) return 0x7fc0;
  return static_cast<bf16>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
#endif
}

/// Rounds two values and packs them as in memory.
__device__ inline unsigned narrow_two(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  unsigned two;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(second), "f"(first));
  return two;
#else
  return narrow(first) | static_cast<unsigned>(narrow(second)) << 16;
#endif
}

/// Stores eight rounded values in one access; left alone, the compiler splits it.
__device__ inline void put(bf16* place, const float (&x)[8]) {
  unsigned two[4];
  for (int i = 0; i < 4; ++i) two[i] = narrow_two(x[2 * i], x[2 * i + 1]);
#ifdef __CUDA_ARCH__
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(place), "r"(two[0]), "r"(two[1]),
               "r"(two[2]), "r"(two[3])
               : "memory");
#else
  for (int i = 0; i < 4; ++i) {
    place[2 * i] = static_cast<bf16>(two[i]);
    place[2 * i + 1] = static_cast<bf16>(two[i] >> 16);
  }
#endif
}

/// x rounded to bfloat16.
__device__ inline float rounded(float x) {
  return wide(narrow(x));
}

/// Index of the item that this block works on, in a launch for several.
template <class All>
__device__ inline int item_of_block(const All& all) {
  int i = 0;
  while (i + 1 < all.count && all.begins[i + 1] <= static_cast<int>(blockIdx.x)) ++i;
  return i;
}

struct Pair {
  float first, second;
};

/// Reduces with `combine` over all threads of the block, which all get the result. The block has
/// whole warps. `calls` counts the calls: they alternate between two buffers for the warps'
/// results, so that a late warp has read one before it is overwritten.
template <class Combine>
__device__ Pair over_block(Pair mine, Pair neutral, int& calls, const Combine& combine) {
  __shared__ Pair of_warps[2][32];
  const auto over_warp = [&](Pair value) {
    for (int distance = 16; distance > 0; distance /= 2) {
      const Pair other{__shfl_xor_sync(0xffffffffU, value.first, distance),
                       __shfl_xor_sync(0xffffffffU, value.second, distance)};
      value = combine(value, other);
    }
    return value;
  };
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const Pair of_warp = over_warp(mine);
  Pair* const place = of_warps[calls++ % 2];
  if (lane == 0) place[warp] = of_warp;
  __syncthreads();
  return over_warp(lane < warps ? place[lane] : neutral);
}

/// For rows of any alignment: `one(i, x)` for values before and after whole Eights, `eight(i, x)`
/// for these, distributed over the block's threads.
template <class OfOne, class OfEight>
__device__ void for_each_in_row(bf16* row, Index columns, const OfOne& one, const OfEight& eight) {
  const Index misplaced = reinterpret_cast<unsigned long long>(row) / sizeof(bf16) % 8;
  const Index before = misplaced == 0 ? 0 : 8 - misplaced;
  const Index head = before < columns ? before : columns;
  const Index eights = (columns - head) / 8;
  for (Index i = threadIdx.x; i < head; i += blockDim.x) one(i, row[i]);
  auto* const body = reinterpret_cast<Eight*>(row + head);
  for (Index k = threadIdx.x; k < eights; k += blockDim.x) eight(head + 8 * k, body[k]);
  for (Index i = head + 8 * eights + threadIdx.x; i < columns; i += blockDim.x) one(i, row[i]);
}
