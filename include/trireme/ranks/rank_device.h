// The device of one rank, with its channel, memory and offload copies, opened as its job says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/comm/link.h"
#include "trireme/config/job.h"
#include "trireme/core/units.h"
#include "trireme/device/locked_clock.h"
#include "trireme/device/meter.h"
#include "trireme/device/place.h"
#include "trireme/record/summary.h"
#include "trireme/tier/device_memory.h"
#include "trireme/tier/offload_store.h"
#include "trireme/tier/rates.h"
#include "trireme/tier/value_copies.h"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace trireme::ranks {

class RankDevice {
 public:
  virtual ~RankDevice() = default;
  RankDevice() = default;
  RankDevice(const RankDevice&) = delete;
  RankDevice& operator=(const RankDevice&) = delete;

  virtual const device::Place& place() const = 0;
  /// Channel to the other ranks, which takes memory of the device.
  virtual comm::Channel& channel() = 0;
  virtual tier::DeviceMemory& memory() = 0;
  /// Memory that a budget in percent is a share of.
  virtual Bytes total_memory() const = 0;
  /// Budget of a job that gives none; 0: no budget.
  virtual Bytes default_budget() const = 0;
  /// Collective: prepares the transport for messages of device memory on these links.
  virtual void connect(std::span<const comm::Link> links) = 0;
  /// Starts the run's memory accounting with this budget; 0: none. Throws InputError where the rank
  /// cannot have a budget of its own.
  virtual void begin_run(Bytes budget) = 0;
  /// The part of a budget that a plan's tensors may take: the rest is for workspaces and gaps.
  virtual Bytes plannable(Bytes budget) const = 0;
  /// The smallest budget that leaves `planned` bytes for a plan's tensors.
  virtual Bytes budget_for(Bytes planned) const = 0;

  /// Whether all ranks of the job may measure layers at the same time. If not, one rank of each
  /// kind measures.
  virtual bool measures_beside_others() const = 0;

  /// Rates of the job's offload tier, which `options` describes; measured on the first call.
  tier::TierRates offload_rates(const tier::OffloadStoreOptions& options) {
    if (!offload_rates_) offload_rates_ = measured_rates(options);
    return *offload_rates_;
  }
  /// The functions that TrainSetup takes.
  virtual std::function<std::unique_ptr<tier::ValueCopies>()> copies_to(
      const tier::OffloadStoreOptions& options) = 0;
  virtual std::function<record::DeviceReserves()> reserves() = 0;

  /// What its energy is counted with, the same for ranks that share that: a machine's processors,
  /// or a GPU.
  virtual std::string counter() const = 0;
  /// Opens that; null where nothing can be read.
  virtual std::unique_ptr<device::Meter> open_meter() const = 0;

  /// Holds the device at a clock with this name.
  virtual device::ClockLocking lock_clock(const std::string& name) const = 0;

  /// Collective, at the end of a successful run, before `control` is closed.
  virtual void close() = 0;

 private:
  virtual tier::TierRates measured_rates(const tier::OffloadStoreOptions& options) = 0;

  std::optional<tier::TierRates> offload_rates_;
};

/// Collective: opens the device that `job.device` names, for one of `stages` ranks per pipeline;
/// its messages go over `control`, over NCCL where that is available. Throws DeviceError for what
/// is missing, InputError for what the job asks for and the device cannot do.
std::unique_ptr<RankDevice> open_rank_device(const config::JobSpec& job, comm::Channel& control,
                                             int stages);

}  // namespace trireme::ranks
