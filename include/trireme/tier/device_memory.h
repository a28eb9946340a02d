// The memory of the device that a rank computes on, as the runtime sees it: what is held, the most
// that was, and how much may be.
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

  /// Tensors that this thread makes on the device while the result lives count here.
  virtual std::shared_ptr<void> enter() = 0;

  /// Bytes that tensors hold.
  virtual Bytes live() const = 0;
  virtual Bytes peak() const = 0;
  /// Bytes that were held when this was opened: workspaces of libraries. Not among live().
  virtual Bytes held_before() const { return Bytes(0); }
  /// Bytes that are taken from the device for tensors, used or not: what others cannot have. The
  /// same as the former where the allocator keeps nothing back.
  virtual Bytes reserved() const = 0;
  virtual Bytes peak_reserved() const = 0;
  /// How often since the last reset_peak() an allocation found no room at once: the allocator
  /// waited for the device and gave back what was free.
  virtual std::int64_t gathered() const { return 0; }

  /// Both peaks start again from what is live now.
  virtual void reset_peak() = 0;
  /// The peak of live bytes since the last call, or since the last reset; the peak as a whole
  /// stays. Not while other threads allocate.
  virtual Bytes take_interval_peak() = 0;

  virtual Bytes budget() const = 0;
  virtual bool has_budget() const = 0;
  /// Of a budget, what live() can reach: the rest goes to what was held before and to gaps.
  virtual Bytes for_tensors(Bytes budget) const { return budget; }
  /// The least budget of which live() can reach that much.
  virtual Bytes budget_for(Bytes tensors) const { return tensors; }
  /// An allocation that would lead over `budget` throws c10::OutOfMemoryError: asked, free, and
  /// what is held.
  virtual void set_budget(Bytes budget) = 0;
};

}  // namespace trireme::tier
