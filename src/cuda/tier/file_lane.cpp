// SPDX-License-Identifier: Apache-2.0
#include "tier/file_lane.h"

#include "tier/cuda_calls.h"

#include <c10/cuda/CUDAGuard.h>

#include <cstdlib>
#include <exception>
#include <new>
#include <utility>

namespace trireme::tier {
namespace {

/// Size of one buffer. A disk takes some milliseconds for it, a copy engine less than one.
constexpr std::size_t kBuffer = std::size_t{8} << 20;
constexpr std::size_t kPage = 4096;

std::byte* take_pages(std::size_t size) {
  void* const memory = std::aligned_alloc(kPage, size);
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

}  // namespace

void StreamBuffers::Free::operator()(std::byte* memory) const {
  std::free(memory);
}

StreamBuffers::StreamBuffers(c10::DeviceIndex device)
    : own_stream_(device, StreamUse::kCopies),
      memory_(take_pages(2 * kBuffer)),
      pinned_({memory_.get(), 2 * kBuffer}, "staging for the offload tier's file",
              "memory.disk_budget: 0 avoids it") {}

std::array<std::span<std::byte>, 2> StreamBuffers::buffers() const {
  return {std::span(memory_.get(), kBuffer), std::span(memory_.get() + kBuffer, kBuffer)};
}

void StreamBuffers::begin_out(std::size_t buffer, const std::byte* from, std::size_t size) {
  check(cudaMemcpyAsync(buffers().at(buffer).data(), from, size, cudaMemcpyDeviceToHost, stream_),
        "a copy out");
  ended_.at(buffer).record(stream_);
}

void StreamBuffers::begin_in(std::size_t buffer, std::byte* to, std::size_t size) {
  check(cudaMemcpyAsync(to, buffers().at(buffer).data(), size, cudaMemcpyHostToDevice, stream_),
        "a copy in");
  ended_.at(buffer).record(stream_);
}

void StreamBuffers::wait(std::size_t buffer) {
  ended_.at(buffer).synchronize();
}

void StreamBuffers::settle() {
  check(cudaStreamSynchronize(stream_), "the end of copies");
}

FileLane::FileLane(c10::DeviceIndex device, OffloadStore& store, CopyDirection direction)
    : device_(device), store_(store), direction_(direction), buffers_(device) {}

CopyLane::Ticket FileLane::post(std::vector<FilePart> parts,
                                std::shared_ptr<const c10::cuda::CUDAEvent> ready) {
  return lane_.post([this, parts = std::move(parts), ready = std::move(ready)] {
    const c10::cuda::CUDAGuard on_device(device_);
    ready->synchronize();
    relay(direction_, parts, store_, buffers_);
  });
}

void FileLane::abandon() noexcept {
  lane_.abandon();
  try {
    buffers_.settle();
  } catch (const std::exception&) {
    // The device is lost: nothing is copied any more.
  }
}

}  // namespace trireme::tier
