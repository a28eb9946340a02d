// SPDX-License-Identifier: Apache-2.0
#include "tier/pinned_staging.h"

#include "tier/cuda_calls.h"
#include "tier/own_stream.h"

#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <map>
#include <mutex>
#include <vector>

namespace trireme::tier {
namespace {

/// Free pinned blocks, by size.
class Blocks : public std::enable_shared_from_this<Blocks> {
 public:
  Blocks() = default;
  ~Blocks() {
    for (const auto& [size, blocks] : free_) {
      for (void* const block : blocks) cudaFreeHost(block);
    }
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  std::shared_ptr<std::byte> take(std::size_t size) {
    return {take_block(size), [all = shared_from_this(), size](std::byte* block) {
              const std::lock_guard lock(all->mutex_);
              all->free_[size].push_back(block);
            }};
  }

 private:
  std::byte* take_block(std::size_t size) {
    const std::lock_guard lock(mutex_);
    std::vector<void*>& free = free_[size];
    if (free.empty()) {
      void* block = nullptr;
      check(cudaHostAlloc(&block, size, cudaHostAllocDefault), "pinned memory for a message");
      return static_cast<std::byte*>(block);
    }
    void* const block = free.back();
    free.pop_back();
    return static_cast<std::byte*>(block);
  }

  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;
};

class StreamCopy final : public comm::HostCopies::Copy {
 public:
  explicit StreamCopy(const c10::cuda::CUDAStream& stream) { ended_.record(stream); }
  bool ended() override { return ended_.query(); }
  void wait() override { ended_.synchronize(); }

 private:
  c10::cuda::CUDAEvent ended_;
};

class PinnedStaging final : public comm::HostCopies {
 public:
  explicit PinnedStaging(c10::DeviceIndex device)
      : device_(device),
        own_stream_(device, StreamUse::kCopies),
        blocks_(std::make_shared<Blocks>()) {}

  bool is_device_memory(const void* data) const override {
    return tier::is_device_memory(data, device_);
  }
  std::shared_ptr<std::byte> take(std::size_t size) override { return blocks_->take(size); }

  std::unique_ptr<Copy> out(std::byte* to, comm::ConstBytes from) override {
    const c10::cuda::CUDAGuard on_device(device_);
    c10::cuda::CUDAEvent made;
    made.record(c10::cuda::getCurrentCUDAStream(device_));
    made.block(out_);
    check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyDeviceToHost, out_),
          "a message's copy to the host");
    return std::make_unique<StreamCopy>(out_);
  }

  std::unique_ptr<Copy> in(comm::MutableBytes to, const std::byte* from) override {
    const c10::cuda::CUDAGuard on_device(device_);
    const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(device_);
    check(cudaMemcpyAsync(to.data(), from, to.size(), cudaMemcpyHostToDevice, stream),
          "a message's copy to the device");
    return std::make_unique<StreamCopy>(stream);
  }

 private:
  c10::DeviceIndex device_;
  OwnStream own_stream_;
  const c10::cuda::CUDAStream& out_ = own_stream_.get();
  std::shared_ptr<Blocks> blocks_;
};

}  // namespace

std::unique_ptr<comm::HostCopies> make_pinned_staging(c10::DeviceIndex device) {
  return std::make_unique<PinnedStaging>(device);
}

}  // namespace trireme::tier
