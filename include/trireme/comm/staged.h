// Messages of device memory over a transport that reads and writes host memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"

#include <cstddef>
#include <memory>

namespace trireme::comm {

/// Copies between device memory and host memory, begun by one thread, which does not wait for them.
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
  /// Host memory that the device reaches; given back with its last owner.
  virtual std::shared_ptr<std::byte> take(std::size_t size) = 0;
  /// From the device, after what it was given before; beside what it is given later.
  virtual std::unique_ptr<Copy> out(std::byte* to, ConstBytes from) = 0;
  /// To the device, after what it was given before and before what it is given later.
  virtual std::unique_ptr<Copy> in(MutableBytes to, const std::byte* from) = 0;
};

/// Messages of device memory go over `control` through host memory, all others as they are.
/// `control` must outlive the channel; close() leaves it open.
///
/// A send returns while its bytes are still being made on the device. It is handed on once they are
/// in host memory: looked for at every call, waited for before this rank waits for anything else,
/// so that no rank waits for bytes that another one has and does not send. A receive has ended, for
/// the caller, when its copy to the device was begun: what the device is given later finds it.
std::unique_ptr<Channel> make_staged_channel(Channel& control, std::unique_ptr<HostCopies> copies);

}  // namespace trireme::comm
