// The memory of a CUDA device: the figures and the limit of LibTorch's caching allocator.
//
// The allocator takes segments from the device and cuts them into blocks. Live bytes are those that
// tensors asked for: they depend on the program alone. A block is larger (a multiple of 512 B, and
// a free one that is up to 1 MiB too large is not cut), and there are gaps between blocks: both are
// the difference to reserved bytes, which a budget limits. Not seen by it: the CUDA context, NCCL's
// buffers.
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
  /// LibTorch's CUDA part must be initialised. What is held now does not count.
  CudaMemory(std::string name, c10::DeviceIndex device);
  /// Lifts the budget.
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
  /// Of all that the allocator takes, what is held before included: reserved() never exceeds it.
  /// Segments may grow from here on and are given back page by page, so that gaps cost little,
  /// unless PYTORCH_ALLOC_CONF says how the allocator works. Throws DeviceError if the device has
  /// less.
  void set_budget(Bytes budget) override;

 private:
  /// Told by the allocator when it has given up on an allocation.
  [[noreturn]] void out_of_memory(Bytes asked, Bytes device_free) const;
  static void watch_allocator();

  std::string name_;
  c10::DeviceIndex device_;
  Bytes total_, before_;
  Bytes budget_{INT64_MAX}, limit_;  ///< limit: how far allocations may lead
  bool has_budget_ = false;
  // The allocator has one peak, which every look at an interval's starts anew.
  Bytes earlier_peak_, earlier_peak_reserved_;
  std::int64_t gathered_before_ = 0;
};

}  // namespace trireme::tier
