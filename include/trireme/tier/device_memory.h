// Interface to the memory of a rank's device: bytes in use, their peak, and the budget.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"

#include <memory>
#include <string>

namespace trireme::tier {

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// For messages: "rank 1".
  virtual const std::string& name() const = 0;

  /// Tensors that this thread allocates on the device while the result lives are counted here.
  virtual std::shared_ptr<void> enter() = 0;

  /// Bytes held by tensors.
  virtual Bytes live() const = 0;
  virtual Bytes peak() const = 0;
  /// Bytes that were held when this was opened, such as library workspaces. Not part of live().
  virtual Bytes held_before() const { return Bytes(0); }
  /// Bytes that the allocator has reserved on the device for tensors, used or not, which nothing
  /// else can have. Equal to live() where the allocator does not cache.
  virtual Bytes reserved() const = 0;
  virtual Bytes peak_reserved() const = 0;
  /// Allocation retries since the last reset_peak(): the allocator waited for the device and
  /// released its cached memory to find room.
  virtual std::int64_t gathered() const { return 0; }

  /// Resets both peaks to the current values.
  virtual void reset_peak() = 0;
  /// Peak of live bytes since the last call or reset; peak() is not affected. Not while other
  /// threads allocate.
  virtual Bytes take_interval_peak() = 0;

  virtual Bytes budget() const = 0;
  virtual bool has_budget() const = 0;
  /// What live() can reach under `budget`; the rest is for held_before() and fragmentation.
  virtual Bytes for_tensors(Bytes budget) const { return budget; }
  /// The smallest budget under which live() can reach `tensors`.
  virtual Bytes budget_for(Bytes tensors) const { return tensors; }
  /// An allocation that would exceed `budget` throws c10::OutOfMemoryError with the bytes
  /// requested, free and held.
  virtual void set_budget(Bytes budget) = 0;
};

}  // namespace trireme::tier
