// What one rank computes on, opened as its job says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/comm/link.h"
#include "trireme/config/job.h"
#include "trireme/core/units.h"
#include "trireme/device/place.h"
#include "trireme/runtime/trainer.h"
#include "trireme/tier/device_memory.h"
#include "trireme/tier/offload_store.h"
#include "trireme/tier/rates.h"
#include "trireme/tier/value_copies.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace trireme::app {

class RankDevice {
 public:
  virtual ~RankDevice() = default;
  RankDevice() = default;
  RankDevice(const RankDevice&) = delete;
  RankDevice& operator=(const RankDevice&) = delete;

  virtual const device::Place& place() const = 0;
  /// Everything that the rank tells others; takes memory of the place.
  virtual comm::Channel& channel() = 0;
  virtual tier::DeviceMemory& memory() = 0;
  /// What a budget in percent is a share of.
  virtual Bytes total_memory() const = 0;
  /// The budget of a job that names none; 0: it has none.
  virtual Bytes default_budget() const = 0;
  /// Every rank of the job: the transport makes ready for messages of device memory on these links.
  virtual void connect(std::span<const comm::Link> links) = 0;
  /// What is held and allowed counts from here on; a budget of 0 is none. Throws InputError where
  /// a budget of its own cannot be had.
  virtual void begin_run(Bytes budget) = 0;
  /// Of a budget, what a plan's tensors may take: the rest is for workspaces and gaps.
  virtual Bytes plannable(Bytes budget) const = 0;
  /// The least budget of which a plan's tensors may take that much.
  virtual Bytes budget_for(Bytes planned) const = 0;

  /// Whether every rank of the job may measure layers at the same time. If not, rank 0 measures.
  virtual bool measures_beside_others() const = 0;

  /// Rates of the job's offload tier, which `options` describes; measured when first asked for.
  tier::TierRates offload_rates(const tier::OffloadStoreOptions& options) {
    if (!offload_rates_) offload_rates_ = measured_rates(options);
    return *offload_rates_;
  }
  /// As TrainSetup has them.
  virtual std::function<std::unique_ptr<tier::ValueCopies>()> copies_to(
      const tier::OffloadStoreOptions& options) = 0;
  virtual std::function<runtime::DeviceReserves()> reserves() = 0;

  /// The end of a good run, every rank; before `control` is closed.
  virtual void close() = 0;

 private:
  virtual tier::TierRates measured_rates(const tier::OffloadStoreOptions& options) = 0;

  std::optional<tier::TierRates> offload_rates_;
};

/// Every rank: opens what `job.device` says, one of `stages` per pipeline; its messages go over
/// `control`, over NCCL where it can be had. Throws DeviceError for what is missing, InputError for
/// what the job asks for and the device does not do.
std::unique_ptr<RankDevice> open_rank_device(const config::JobSpec& job, comm::Channel& control,
                                             int stages);

}  // namespace trireme::app
