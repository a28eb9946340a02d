// What our own kernels need of CUDA, on the host: they can be run where there is no GPU. The
// threads of a block take turns on one of the host's; blocks run one after the other, so what they
// share can be static.
//
// Warps come one before the other: each goes on as long as it can before one behind it does
// anything. What a warp does too early because it does not wait for others is seen that way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ucontext.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

namespace trireme::kernels::host {

struct Three {
  unsigned x = 1, y = 1;
};

inline Three blockDim, gridDim, blockIdx;
inline Three threadIdx;  ///< of the thread whose turn it is

enum class Order { kUpwards, kDownwards };
inline Order order = Order::kUpwards;  ///< in which the warps of a block come

/// Where threads wait for each other, again and again.
struct Meeting {
  unsigned expected, waiting = 0, held = 0;
};

/// The threads of a block, which go on until they wait.
class Block {
 public:
  Block(unsigned threads, std::function<void()> body)
      : all_{threads},
        warps_(threads / 32, Meeting{32}),
        exchanged_(threads),
        body_(std::move(body)) {
    threads_.reserve(threads);  // a context must not move
    for (unsigned i = 0; i < threads; ++i) {
      Thread& thread = threads_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(kStack));
      ::getcontext(&thread.context);
      thread.context.uc_stack.ss_sp = thread.stack.get();
      thread.context.uc_stack.ss_size = kStack;
      thread.context.uc_link = &host_;
      ::makecontext(&thread.context, &Block::begin, 0);
    }
  }

  void run() {
    current = this;
    while (ended_ < threads_.size()) {
      const std::size_t warps = warps_.size();
      std::size_t k = 0;
      while (k < warps && !goes_on(order == Order::kUpwards ? k : warps - 1 - k)) ++k;
      if (k == warps) std::abort();  // they wait for one another
    }
  }

  void meet_all() { meet(all_); }
  float exchange(float value, unsigned other) {
    Meeting& warp = warps_[threadIdx.x / 32];
    exchanged_[threadIdx.x] = value;
    meet(warp);
    const float found = exchanged_[other];
    meet(warp);
    return found;
  }

  static inline Block* current = nullptr;

 private:
  static constexpr std::size_t kStack = std::size_t{64} << 10;
  struct Thread {
    explicit Thread(std::unique_ptr<std::byte[]> memory) : stack(std::move(memory)) {}
    std::unique_ptr<std::byte[]> stack;
    ucontext_t context{};
    bool has_ended = false;
  };

  static void begin() {
    current->body_();
    current->threads_[current->turn_].has_ended = true;
    ++current->ended_;
  }
  /// Whether a warp's threads got any further.
  bool goes_on(std::size_t warp) {
    const std::size_t before = met_ + ended_;
    for (turn_ = 32 * warp; turn_ < 32 * (warp + 1); ++turn_) {
      if (threads_[turn_].has_ended) continue;
      threadIdx = {static_cast<unsigned>(turn_), 0};
      ::swapcontext(&host_, &threads_[turn_].context);
    }
    return met_ + ended_ > before;
  }
  void meet(Meeting& at) {
    const unsigned number = at.held;
    if (++at.waiting == at.expected) {
      at.waiting = 0;
      ++at.held;
      ++met_;
    }
    while (at.held == number) {
      ::swapcontext(&threads_[turn_].context, &host_);
    }
  }

  Meeting all_;
  std::vector<Meeting> warps_;
  std::vector<float> exchanged_;
  std::function<void()> body_;
  std::vector<Thread> threads_;
  ucontext_t host_{};
  std::size_t turn_ = 0, met_ = 0, ended_ = 0;
};

inline void __syncthreads() {
  Block::current->meet_all();
}
inline float __shfl_xor_sync(unsigned /*lanes*/, float value, int distance) {
  return Block::current->exchange(value, threadIdx.x ^ static_cast<unsigned>(distance));
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
inline float erff(float x) {
  return std::erf(x);
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
inline float rsqrtf(float x) {
  return 1 / std::sqrt(x);
}
inline float __fdividef(float a, float b) {
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
  for (blockIdx.y = 0; blockIdx.y < blocks.y; ++blockIdx.y) {
    for (blockIdx.x = 0; blockIdx.x < blocks.x; ++blockIdx.x)
      Block(threads, [&] { kernel(arguments...); }).run();
  }
}

}  // namespace trireme::kernels::host

#define __global__ inline
#define __device__
#define __shared__ static
#define __launch_bounds__(...)
