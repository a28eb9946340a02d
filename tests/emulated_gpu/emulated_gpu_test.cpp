// Tests of the emulated devices themselves: the behaviour that other tests rely on.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

namespace emulated {
namespace {

constexpr std::size_t kSize = 4096;

struct Freed {
  void operator()(std::byte* memory) const { cudaFree(memory); }
};
struct FreedHost {
  void operator()(std::byte* memory) const { cudaFreeHost(memory); }
};

class EmulatedGpu : public testing::Test {
 protected:
  EmulatedGpu() {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, kSize), cudaSuccess);
    device_.reset(static_cast<std::byte*>(memory));
    EXPECT_EQ(cudaHostAlloc(&memory, kSize, cudaHostAllocDefault), cudaSuccess);
    pinned_.reset(static_cast<std::byte*>(memory));
    EXPECT_EQ(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0), cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&event_, cudaEventDefault), cudaSuccess);
  }
  ~EmulatedGpu() override {
    cudaEventDestroy(event_);
    cudaStreamDestroy(stream_);
  }

  /// Copies to the device from pinned memory that holds `value`.
  cudaError_t copy_in(int value) {
    std::memset(pinned_.get(), value, kSize);
    return cudaMemcpyAsync(device_.get(), pinned_.get(), kSize, cudaMemcpyHostToDevice, stream_);
  }
  /// What `look` sees right after a copy in of 1 over 0xFF. A process that has queued nothing for 3
  /// ms is quiet, and its streams go on: on a busy machine that may be before `look`, which then
  /// looks again after another copy.
  template <class Look>
  int seen_at_once(const Look& look) {
    while (true) {
      EXPECT_EQ(copy_in(0xFF), cudaSuccess);
      EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
      const auto begin = std::chrono::steady_clock::now();
      EXPECT_EQ(copy_in(1), cudaSuccess);
      const int seen = look();
      if (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(3)) return seen;
    }
  }
  int held() const { return std::to_integer<int>(device_[kSize - 1]); }

  std::unique_ptr<std::byte[], Freed> device_;
  std::unique_ptr<std::byte[], FreedHost> pinned_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

TEST_F(EmulatedGpu, NewMemoryHoldsNoNumbers) {
  float first = 0;
  std::memcpy(&first, device_.get(), sizeof first);
  EXPECT_NE(first, first);
}

TEST_F(EmulatedGpu, ACopyIsNotThereBeforeSomebodyWaitsForIt) {
  EXPECT_EQ(seen_at_once([&] { return held(); }), 0xFF);
  EXPECT_EQ(seen_at_once([&] { return static_cast<int>(cudaStreamQuery(stream_)); }),
            static_cast<int>(cudaErrorNotReady));
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(held(), 1);
  EXPECT_EQ(cudaStreamQuery(stream_), cudaSuccess);
}

TEST_F(EmulatedGpu, ACopyThatNobodyWaitsForEndsAllTheSame) {
  ASSERT_EQ(copy_in(1), cudaSuccess);
  cudaEventRecord(event_, stream_);
  while (cudaEventQuery(event_) == cudaErrorNotReady) std::this_thread::yield();
  EXPECT_EQ(held(), 1);
}

TEST_F(EmulatedGpu, PageableMemoryIsCopiedBeforeTheCallReturns) {
  const std::byte value{7};
  ASSERT_EQ(cudaMemcpyAsync(device_.get() + kSize - 1, &value, 1, cudaMemcpyHostToDevice, stream_),
            cudaSuccess);
  EXPECT_EQ(held(), 7);
}

TEST_F(EmulatedGpu, AStreamThatWaitsForAnEventComesAfterIt) {
  ASSERT_EQ(copy_in(1), cudaSuccess);
  cudaEventRecord(event_, stream_);
  cudaStreamWaitEvent(nullptr, event_, 0);
  std::byte seen{};
  ASSERT_EQ(cudaMemcpyAsync(&seen, device_.get(), 1, cudaMemcpyDeviceToHost, nullptr), cudaSuccess);
  EXPECT_EQ(std::to_integer<int>(seen), 1);
}

TEST_F(EmulatedGpu, AStreamThatDoesNotWaitComesBefore) {
  const auto copied = [&] {
    std::byte seen{};
    EXPECT_EQ(cudaMemcpyAsync(&seen, device_.get(), 1, cudaMemcpyDeviceToHost, nullptr),
              cudaSuccess);
    return std::to_integer<int>(seen);
  };
  EXPECT_EQ(seen_at_once(copied), 0xFF);
}

TEST_F(EmulatedGpu, TimeBetweenEventsIsThatOfTheStream) {
  cudaEvent_t later = nullptr;
  cudaEventCreateWithFlags(&later, cudaEventDefault);
  cudaEventRecord(event_, stream_);
  cudaLaunchHostFunc(
      stream_, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }, nullptr);
  cudaEventRecord(later, stream_);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, event_, later), cudaErrorNotReady);
  cudaEventSynchronize(later);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, event_, later), cudaSuccess);
  EXPECT_GE(milliseconds, 20);
  cudaEventDestroy(later);
}

TEST_F(EmulatedGpu, ADeviceHasSoMuchMemoryAndNoMore) {
  std::size_t left = 0, total = 0;
  cudaMemGetInfo(&left, &total);
  EXPECT_EQ(total - left, kSize);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, left + 1), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(EmulatedGpu, PointersAreKnownForWhatTheyAre) {
  const auto type_of = [](const void* memory) {
    cudaPointerAttributes attributes{};
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, memory), cudaSuccess);
    return attributes.type;
  };
  const int pageable = 0;
  EXPECT_EQ(type_of(device_.get() + kSize - 1), cudaMemoryTypeDevice);
  EXPECT_EQ(type_of(pinned_.get()), cudaMemoryTypeHost);
  EXPECT_EQ(type_of(&pageable), cudaMemoryTypeUnregistered);
}

/// Whether the host finds zeros where it copies from a timed device, which computes nothing.
bool gives_zeros(std::size_t numbers) {
  std::vector<float> host(numbers, std::numeric_limits<float>::quiet_NaN());
  const std::size_t size = numbers * sizeof(float);
  void* memory = nullptr;
  return cudaMalloc(&memory, size) == cudaSuccess &&
         cudaMemcpy(host.data(), memory, size, cudaMemcpyDeviceToHost) == cudaSuccess &&
         std::all_of(host.begin(), host.end(), [](float one) { return one == 0; });
}

// In its own process, because the mode holds for the whole process.
TEST(TimedGpuDeathTest, GivesNumbersToWhoReadsWhatItDidNotMove) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        setenv("TRIREME_EMULATED_GPU", "timed", 1);
        std::exit(gives_zeros(16) && gives_zeros(std::size_t{1} << 20) ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

/// Runs last: a device with a fault keeps it.
TEST_F(EmulatedGpu, ACopyBeyondTheMemoryIsAFault) {
  auto registered = std::make_unique<std::byte[]>(kSize);
  ASSERT_EQ(cudaHostRegister(registered.get(), kSize, cudaHostRegisterDefault), cudaSuccess);
  ASSERT_EQ(
      cudaMemcpyAsync(device_.get() + 1, registered.get(), kSize, cudaMemcpyHostToDevice, stream_),
      cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorIllegalAddress) << "one byte too far";
  cudaHostUnregister(registered.get());
}

}  // namespace
}  // namespace emulated
