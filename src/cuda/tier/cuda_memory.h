// Memory statistics and limit of a CUDA device, from LibTorch's caching allocator.
//
// The allocator takes segments from the device and splits them into blocks. Live bytes are those
// that tensors requested: they depend on the program alone. A block is larger (a multiple of 512 B,
// and a free one that is up to 1 MiB too large is not split), and there are gaps between blocks:
// both are the difference to reserved bytes, which a budget limits. Not counted: the CUDA context,
// NCCL's buffers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/tier/device_memory.h"

#include <c10/core/Device.h>

#include <string>

namespace trireme::tier {

/// One at a time per device. Used by one thread at a time.
class CudaMemory final : public DeviceMemory {
 public:
  /// LibTorch's CUDA part must be initialised. What is held now counts as held_before(), not as
  /// live.
  CudaMemory(std::string name, c10::DeviceIndex device);
  /// Removes the budget.
  ~CudaMemory() override;

  const std::string& name() const override { return name_; }
  std::shared_ptr<void> enter() override { return nullptr; }  // all that this process holds counts
  Bytes live() const override;
  Bytes peak() const override;
  Bytes held_before() const override { return before_; }
  Bytes reserved() const override;
  Bytes peak_reserved() const override;
  std::int64_t gathered() const override;
  void reset_peak() override;
  Bytes take_interval_peak() override;
  Bytes budget() const override { return budget_; }
  bool has_budget() const override { return has_budget_; }
  Bytes for_tensors(Bytes budget) const override;
  Bytes budget_for(Bytes tensors) const override;
  /// Limits all that the allocator reserves, held_before() included: reserved() never exceeds it.
  /// Makes segments expandable, so that fragmentation costs little, unless PYTORCH_ALLOC_CONF
  /// configures the allocator. Throws DeviceError if the device has less.
  void set_budget(Bytes budget) override;

 private:
  /// Called by the allocator when an allocation has failed.
  [[noreturn]] void out_of_memory(Bytes asked, Bytes device_free) const;
  static void watch_allocator();

  std::string name_;
  c10::DeviceIndex device_;
  Bytes total_, before_;
  Bytes budget_{INT64_MAX}, limit_;  ///< limit_: what is set as the allocator's own limit
  bool has_budget_ = false;
  // The allocator has one peak, which take_interval_peak() resets.
  Bytes earlier_peak_, earlier_peak_reserved_;
  std::int64_t gathered_before_ = 0;
};

}  // namespace trireme::tier
