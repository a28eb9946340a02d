// Interface of libtrireme_cuda.so to the rest of the program, which neither links it nor includes a
// CUDA header.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/comm/link.h"
#include "trireme/core/units.h"
#include "trireme/device/place.h"
#include "trireme/tier/device_memory.h"
#include "trireme/tier/offload_store.h"
#include "trireme/tier/value_copies.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace trireme::device {

/// One CUDA device that this process computes on, shared by its threads. Lives until the process
/// ends; what it makes must be destroyed before.
class CudaPart : public Place {
 public:
  /// As in c10::Device(c10::kCUDA, index()).
  int index() const { return device().index(); }
  /// Identifies the GPU: 32 hex digits, the same in every process.
  virtual std::string unique_id() const = 0;
  /// The same as NVML writes it: "GPU-8f3c...", with four hyphens.
  virtual std::string uuid() const = 0;
  virtual Bytes total_memory() const = 0;
  /// Device memory that the caching allocator does not hold: contexts, NCCL's buffers, other
  /// processes.
  virtual Bytes taken_by_others() const = 0;

  /// Makes this the current device of this thread.
  virtual void use() = 0;
  /// Waits for all work of this process on the device.
  virtual void finish_work() = 0;
  /// Releases the allocator's cached memory on all devices of this process, none of which may have
  /// work under way.
  virtual void give_back_unused() = 0;

  /// Statistics and limit of the caching allocator. One at a time.
  virtual std::unique_ptr<tier::DeviceMemory> open_memory(std::string name) = 0;
  /// Copies to a store with pinned memory, which is allocated now. Throws Error if it is not
  /// available.
  virtual std::unique_ptr<tier::ValueCopies> make_copies(
      const tier::OffloadStoreOptions& store) = 0;

  /// Sends device memory over `control` through pinned host memory; all else goes over `control` as
  /// it is. `control` must outlive the channel and is closed by its owner, after the channel.
  virtual std::unique_ptr<comm::Channel> make_staged_channel(comm::Channel& control) = 0;
  /// Sends device memory over NCCL on the links that are connected, all else over `control`, which
  /// must be a staged channel if device memory is sent on other links, too. `control` must outlive
  /// the channel and is closed by its owner, after the channel.
  virtual std::unique_ptr<comm::LinkedChannel> make_channel(
      comm::Channel& control, const comm::ChannelOptions& options) = 0;
};

/// The loaded library, before a device is chosen.
class CudaLibrary {
 public:
  virtual ~CudaLibrary() = default;
  CudaLibrary() = default;
  CudaLibrary(const CudaLibrary&) = delete;
  CudaLibrary& operator=(const CudaLibrary&) = delete;

  /// Number of devices, at least 1. Allocates nothing on any of them.
  virtual int devices() const = 0;
  /// Opens a device; the same object for the same index. Throws DeviceError if there is no such
  /// device.
  virtual CudaPart& open(int index) = 0;
};

/// The library's one entry point, "trireme_cuda_open". Returns null if no device can be used, with
/// a reason in `problem`, cut to `size` including its terminating zero. `version` must be
/// kCudaPartVersion.
using OpenCudaLibrary = CudaLibrary*(int version, char* problem, std::size_t size);
/// Incremented with each change of this header or of place.h: a library of another build is
/// refused.
inline constexpr int kCudaPartVersion = 5;

}  // namespace trireme::device
