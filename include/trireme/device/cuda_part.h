// What libtrireme_cuda.so gives to the rest, which neither links it nor includes a header of CUDA.
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

/// One CUDA device that this process computes on, for any number of its threads. Lives until the
/// process ends; what it makes must be gone before.
class CudaPart : public Place {
 public:
  /// As in c10::Device(c10::kCUDA, index()).
  int index() const { return device().index(); }
  /// The same for every process that computes on this GPU, on no other one: 32 hex digits.
  virtual std::string unique_id() const = 0;
  virtual Bytes total_memory() const = 0;
  /// Of what is taken from the device, that which the caching allocator did not take: contexts,
  /// NCCL's buffers, other processes.
  virtual Bytes taken_by_others() const = 0;

  /// What this thread computes from here on, it computes here.
  virtual void use() = 0;
  /// Waits for all that the device has to do for this process.
  virtual void finish_work() = 0;
  /// Memory that the allocator keeps for later goes back, of all devices of this process: none of
  /// them may have work.
  virtual void give_back_unused() = 0;

  /// The caching allocator's figures and limit. One at a time.
  virtual std::unique_ptr<tier::DeviceMemory> open_memory(std::string name) = 0;
  /// Copies to a store, taken now, whose memory is pinned. Throws Error if it is not to be had.
  virtual std::unique_ptr<tier::ValueCopies> make_copies(
      const tier::OffloadStoreOptions& store) = 0;

  /// Device memory as messages over `control`, through pinned host memory; all else goes over
  /// `control` as it is. `control` must outlive the channel and is closed by its owner, after the
  /// channel.
  virtual std::unique_ptr<comm::Channel> make_staged_channel(comm::Channel& control) = 0;
  /// Device memory travels over NCCL on the links that are connected, all else over `control`: a
  /// staged channel, if device memory travels elsewhere, too. It must outlive the channel and is
  /// closed by its owner, after the channel.
  virtual std::unique_ptr<comm::LinkedChannel> make_channel(
      comm::Channel& control, const comm::ChannelOptions& options) = 0;
};

/// What can be asked before a device is chosen.
class CudaLibrary {
 public:
  virtual ~CudaLibrary() = default;
  CudaLibrary() = default;
  CudaLibrary(const CudaLibrary&) = delete;
  CudaLibrary& operator=(const CudaLibrary&) = delete;

  /// At least 1. Takes nothing from any device.
  virtual int devices() const = 0;
  /// The same part for the same index. Throws DeviceError if there is no such device.
  virtual CudaPart& open(int index) = 0;
};

/// The library's one entry point, "trireme_cuda_open". Null with a reason in `problem`, cut to
/// `size` with its ending zero, if no device can be used. `version` must be kCudaPartVersion.
using OpenCudaLibrary = CudaLibrary*(int version, char* problem, std::size_t size);
/// Counts changes of this header and of place.h: a library of another build is refused.
inline constexpr int kCudaPartVersion = 4;

}  // namespace trireme::device
