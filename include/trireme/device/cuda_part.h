// What libtrireme_cuda.so gives to the rest, which neither links it nor includes a header of CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/comm/link.h"
#include "trireme/core/units.h"
#include "trireme/tier/device_memory.h"
#include "trireme/tier/value_copies.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace trireme::device {

/// One CUDA device, which this process computes on. Lives until the process ends; what it makes
/// must be gone before.
class CudaPart {
 public:
  virtual ~CudaPart() = default;
  CudaPart() = default;
  CudaPart(const CudaPart&) = delete;
  CudaPart& operator=(const CudaPart&) = delete;

  /// As in c10::Device(c10::kCUDA, index()).
  virtual int index() const = 0;
  /// "GPU 0 (NVIDIA H200, 140 GiB)".
  virtual std::string describe() const = 0;
  virtual Bytes total_memory() const = 0;

  /// The caching allocator's figures and limit. One at a time.
  virtual std::unique_ptr<tier::DeviceMemory> open_memory(std::string name) = 0;
  /// Copies to `host` bytes of pinned memory, taken now. Throws Error if it is not to be had.
  virtual std::unique_ptr<tier::ValueCopies> make_copies(Bytes host) = 0;
  /// Every rank that a link names, with the same `links` in the same order. Device memory travels
  /// over NCCL on these links, all else over `control`, which must outlive the channel and is
  /// closed by its owner, after the channel.
  virtual std::unique_ptr<comm::Channel> make_channel(comm::Channel& control,
                                                      const comm::ChannelOptions& options,
                                                      const std::vector<comm::Link>& links) = 0;
};

/// The library's one entry point, "trireme_cuda_open". Null with a reason in `problem`, cut to
/// `size` with its ending zero, if the device cannot be used. `version` must be kCudaPartVersion.
using OpenCudaPart = CudaPart*(int version, int index, char* problem, std::size_t size);
/// Counts changes of this header: a library of another build is refused.
inline constexpr int kCudaPartVersion = 1;

}  // namespace trireme::device
