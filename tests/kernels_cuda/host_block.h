// What our own kernels need of CUDA, for a block of threads of the host: they can be run where
// there is no GPU. Blocks run one after the other, so what they share can be static.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <barrier>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

namespace trireme::kernels::host {

struct Three {
  unsigned x = 1, y = 1;
};
struct uint4 {
  unsigned x, y, z, w;
};

inline Three blockDim, gridDim;
inline thread_local Three threadIdx, blockIdx;

/// What threads of a block meet at and exchange values over.
struct Block {
  explicit Block(unsigned threads) : all(threads), exchanged(threads) {
    for (unsigned i = 0; i < threads / 32; ++i)
      warps.push_back(std::make_unique<std::barrier<>>(32));
  }
  std::barrier<> all;
  std::vector<std::unique_ptr<std::barrier<>>> warps;
  std::vector<float> exchanged;
};
inline Block* block = nullptr;

inline void __syncthreads() {
  block->all.arrive_and_wait();
}
inline float __shfl_xor_sync(unsigned /*lanes*/, float value, int distance) {
  std::barrier<>& warp = *block->warps[threadIdx.x / 32];
  block->exchanged[threadIdx.x] = value;
  warp.arrive_and_wait();
  const float other = block->exchanged[threadIdx.x ^ static_cast<unsigned>(distance)];
  warp.arrive_and_wait();
  return other;
}
inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline float __expf(float x) {
  return std::exp(x);
}
// Each rounds once, to the nearest.
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fsqrt_rn(float x) {
  return std::sqrt(x);
}
[[noreturn]] inline void __trap() {
  std::abort();
}

/// kernel(arguments...) by every thread of every block.
template <class Kernel, class... Arguments>
void run(Three blocks, unsigned threads, const Kernel& kernel, Arguments... arguments) {
  gridDim = blocks;
  blockDim = {threads, 1};
  for (unsigned y = 0; y < blocks.y; ++y) {
    for (unsigned x = 0; x < blocks.x; ++x) {
      Block here(threads);
      block = &here;
      std::vector<std::jthread> team;
      for (unsigned t = 0; t < threads; ++t)
        team.emplace_back([&, t] {
          threadIdx = {t, 0};
          blockIdx = {x, y};
          kernel(arguments...);
        });
    }
  }
}

}  // namespace trireme::kernels::host

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(threads)
