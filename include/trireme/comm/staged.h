// Staged transport: messages of device memory over a transport that reads and writes host memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"

#include <cstddef>
#include <memory>

namespace trireme::comm {

/// Asynchronous copies between device and host memory.
class HostCopies {
 public:
  class Copy {
   public:
    virtual ~Copy() = default;
    virtual bool ended() = 0;
    virtual void wait() = 0;
  };

  virtual ~HostCopies() = default;

  virtual bool is_device_memory(const void* data) const = 0;
  /// Host memory that the device can access; freed with its last owner.
  virtual std::shared_ptr<std::byte> take(std::size_t size) = 0;
  /// Device to host, ordered after work already queued on the device; concurrent with later work.
  virtual std::unique_ptr<Copy> out(std::byte* to, ConstBytes from) = 0;
  /// Host to device, ordered after work already queued on the device and before later work.
  virtual std::unique_ptr<Copy> in(MutableBytes to, const std::byte* from) = 0;
};

/// Messages of device memory go over `control` by way of host memory, all others directly.
/// `control` must outlive the channel; close() leaves it open.
///
/// A send returns while its bytes may still be computed on the device. It is passed on to `control`
/// once they are in host memory: checked at every call, and waited for before this rank waits for
/// anything else, so that no rank waits for bytes that another has but does not send. A receive
/// counts as done once its copy to the device was queued: work queued on the device later sees the
/// data.
std::unique_ptr<Channel> make_staged_channel(Channel& control, std::unique_ptr<HostCopies> copies);

}  // namespace trireme::comm
