// SPDX-License-Identifier: Apache-2.0
#include "tier/cuda_memory.h"

#include "tier/cuda_calls.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

namespace trireme::tier {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

/// Expandable segments, with the smallest pages that LibTorch 2.11 has, in MiB. With its standard
/// pages of 20 MiB, jobs of some hundred MiB do not find room for blocks that their plans count on;
/// without expandable segments, fragmentation takes a tenth of the budget.
constexpr const char* kGrowingSegments = "expandable_segments:True,large_segment_size_mb:12";

/// What the allocator's segments may hold in addition to live bytes: partly used pages, of which
/// the last is not mapped if it could exceed the budget, and gaps between blocks. An estimate from
/// runs on emulated GPUs, to be compared with real ones.
constexpr Bytes kPages(std::int64_t{40} << 20);
constexpr std::int64_t kShareOfGaps = 32;

/// Objects that the out-of-memory observer calls, by device.
struct Watchers {
  std::mutex mutex;
  std::map<c10::DeviceIndex, const CudaMemory*> by_device;
};
Watchers& watchers() {
  static auto* const all =
      new Watchers;  // never freed: the allocator may outlive static destruction
  return *all;
}

Bytes requested(c10::DeviceIndex device) {
  return Bytes(allocator::getDeviceStats(device).requested_bytes[kAll].current);
}

Bytes total_memory_of(c10::DeviceIndex device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  return Bytes(static_cast<std::int64_t>(properties.totalGlobalMem));
}

}  // namespace

CudaMemory::CudaMemory(std::string name, c10::DeviceIndex device)
    : name_(std::move(name)),
      device_(device),
      total_(total_memory_of(device)),
      before_(requested(device)) {
  watch_allocator();
  const std::lock_guard lock(watchers().mutex);
  ensure(watchers().by_device.emplace(device, this).second, "a device's memory is watched once");
}

CudaMemory::~CudaMemory() {
  {
    const std::lock_guard lock(watchers().mutex);
    watchers().by_device.erase(device_);
  }
  if (has_budget_) allocator::setMemoryFraction(1.0, device_);
}

Bytes CudaMemory::live() const {
  return requested(device_) - before_;
}

Bytes CudaMemory::peak() const {
  return std::max(earlier_peak_,
                  Bytes(allocator::getDeviceStats(device_).requested_bytes[kAll].peak) - before_);
}

Bytes CudaMemory::reserved() const {
  return Bytes(allocator::getDeviceStats(device_).reserved_bytes[kAll].current);
}

Bytes CudaMemory::peak_reserved() const {
  return std::max(earlier_peak_reserved_,
                  Bytes(allocator::getDeviceStats(device_).reserved_bytes[kAll].peak));
}

std::int64_t CudaMemory::gathered() const {
  return allocator::getDeviceStats(device_).num_alloc_retries - gathered_before_;
}

void CudaMemory::reset_peak() {
  gathered_before_ = allocator::getDeviceStats(device_).num_alloc_retries;
  earlier_peak_ = earlier_peak_reserved_ = Bytes(0);
  allocator::resetPeakStats(device_);
}

Bytes CudaMemory::take_interval_peak() {
  const auto stats = allocator::getDeviceStats(device_);
  allocator::resetPeakStats(device_);
  const Bytes peak = Bytes(stats.requested_bytes[kAll].peak) - before_;
  earlier_peak_ = std::max(earlier_peak_, peak);
  earlier_peak_reserved_ = std::max(earlier_peak_reserved_, Bytes(stats.reserved_bytes[kAll].peak));
  return peak;
}

Bytes CudaMemory::for_tensors(Bytes budget) const {
  return budget - before_ - kPages - budget / kShareOfGaps;
}

Bytes CudaMemory::budget_for(Bytes tensors) const {
  const Bytes all = tensors + before_ + kPages;
  return all + (all + Bytes(kShareOfGaps - 2)) / (kShareOfGaps - 1);
}

void CudaMemory::set_budget(Bytes budget) {
  if (budget > total_) {
    throw DeviceError(concat(
        name_, ": the memory budget of ", to_text(budget), " is more than the ", to_text(total_),
        " that GPU ", static_cast<int>(device_), " has: memory.device_budget says how much"));
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread changes the environment
  const auto is_set = [](const char* name) { return std::getenv(name) != nullptr; };
  if (!is_set("PYTORCH_ALLOC_CONF") && !is_set("PYTORCH_CUDA_ALLOC_CONF"))
    c10::CachingAllocator::setAllocatorSettings(kGrowingSegments);
  allocator::emptyCache();  // segments that were reserved before count, too
  // The allocator compares the requested size with its limit, then maps whole pages.
  using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
  const Bytes last_page(Config::use_expandable_segments()
                            ? static_cast<std::int64_t>(Config::large_segment_size())
                            : 0);
  limit_ = std::max(Bytes(0), budget - last_page);
  // The allocator multiplies again and truncates: half a byte more yields the same number.
  const double fraction =
      (static_cast<double>(limit_.count()) + 0.5) / static_cast<double>(total_.count());
  allocator::setMemoryFraction(std::min(fraction, 1.0), device_);
  budget_ = budget;
  has_budget_ = true;
}

void CudaMemory::watch_allocator() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Called without the allocator's lock when all retries have failed, right before it throws: our
    // error replaces its own.
    allocator::attachOutOfMemoryObserver([](std::int64_t device, std::size_t asked,
                                            std::size_t /*allowed*/, std::size_t device_free) {
      const std::unique_lock lock(watchers().mutex);
      const auto found = watchers().by_device.find(static_cast<c10::DeviceIndex>(device));
      if (found == watchers().by_device.end()) return;
      found->second->out_of_memory(Bytes(static_cast<std::int64_t>(asked)),
                                   Bytes(static_cast<std::int64_t>(device_free)));
    });
  });
}

void CudaMemory::out_of_memory(Bytes asked, Bytes device_free) const {
  const Bytes held = live() + before_, taken = reserved();
  const std::string gaps =
      concat("held: tensors ", to_text(held), ", free blocks between them that are too small ",
             to_text(taken - held));
  if (has_budget_ && taken + asked > limit_) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, name_, ": the memory budget of ", to_text(budget_),
                     " on GPU ", static_cast<int>(device_), " is spent: asked for ", to_text(asked),
                     " (", asked.count(), " B) with ", to_text(limit_ - std::min(taken, limit_)),
                     " free; ", gaps);
  }
  TORCH_CHECK_WITH(OutOfMemoryError, false, name_, ": GPU ", static_cast<int>(device_),
                   " is full: asked for ", to_text(asked), " (", asked.count(), " B) with ",
                   to_text(device_free), " free of ", to_text(total_), "; ", gaps,
                   "; the rest is NCCL's, the CUDA context's, or other processes'");
}

}  // namespace trireme::tier
