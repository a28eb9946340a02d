// A GPU's clock, held at one frequency.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/device/meter.h"

#include <memory>
#include <string>

namespace trireme::device {

/// Holds a GPU at a clock while it lives, then lets it choose its own again. Where the process is
/// killed before, `nvidia-smi --reset-gpu-clocks` does that.
class LockedClock {
 public:
  virtual ~LockedClock() = default;
  LockedClock() = default;
  LockedClock(const LockedClock&) = delete;
  LockedClock& operator=(const LockedClock&) = delete;
};

/// A lock, or in words why there is none.
struct ClockLocking {
  std::unique_ptr<LockedClock> lock;
  std::string problem;
};

/// Locks the GPU with this UUID, as NVML writes it, at a frequency. It needs the rights of root.
/// https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceCommands.html
ClockLocking lock_clock(const std::string& uuid, int megahertz, const std::string& library = kNvml);

}  // namespace trireme::device
