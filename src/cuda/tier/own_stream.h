// CUDA streams that do not wait for one another. Streams share the GPU's hardware queues, and work
// of streams that share one runs in the order in which it was queued: after a message that waits
// for another rank, compute or copies would wait, too.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/cuda/CUDAStream.h>

namespace trireme::tier {

/// What is queued on a stream decides with which others it may share a hardware queue.
enum class StreamUse {
  kMessages,  ///< waits for another rank: shares with no stream that is in use
  kCopies,    ///< waits for compute alone: shares rather with these and with compute
};

/// A stream of greatest priority on which nothing else is queued.
class OwnStream {
 public:
  /// Tries new streams until one has a hardware queue that suits `use`, beside the OwnStreams of
  /// this process and LibTorch's standard stream on the device. If none has, it takes the best and
  /// says on stderr that ranks may wait for one another. Takes a tenth of a second for a stream
  /// that it cannot use. Throws DeviceError.
  OwnStream(c10::DeviceIndex device, StreamUse use);
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  const c10::cuda::CUDAStream& get() const { return stream_; }

 private:
  c10::cuda::CUDAStream stream_;
};

}  // namespace trireme::tier
