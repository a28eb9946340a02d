// SPDX-License-Identifier: Apache-2.0
#include "trireme/ranks/rank_device.h"

#include "rank_gpu.h"

#include "trireme/comm/host.h"
#include "trireme/core/text.h"
#include "trireme/ranks/host.h"
#include "trireme/runtime/copies.h"
#include "trireme/tier/memory.h"

namespace trireme::ranks {
namespace {

class RankCpu final : public RankDevice {
 public:
  explicit RankCpu(comm::Channel& control)
      : control_(control), memory_(tier::MemoryAccount::open(concat("rank ", control.rank()))) {}

  const device::Place& place() const override { return device::cpu(); }
  comm::Channel& channel() override { return control_; }
  tier::DeviceMemory& memory() override { return memory_; }
  Bytes total_memory() const override { return machine_memory(); }
  Bytes default_budget() const override { return Bytes(0); }
  void connect(std::span<const comm::Link> /*links*/) override {}
  void begin_run(Bytes budget) override {
    if (budget > Bytes(0)) memory_.set_budget(budget);
  }
  Bytes plannable(Bytes budget) const override { return budget; }
  Bytes budget_for(Bytes planned) const override { return planned; }
  bool measures_beside_others() const override { return true; }
  std::function<std::unique_ptr<tier::ValueCopies>()> copies_to(
      const tier::OffloadStoreOptions& options) override {
    return [options] { return std::make_unique<runtime::Copies>(options); };
  }
  std::function<record::DeviceReserves()> reserves() override { return {}; }
  std::string counter() const override { return comm::host_name(); }
  std::unique_ptr<device::Meter> open_meter() const override { return device::open_rapl(); }
  device::ClockLocking lock_clock(const std::string& /*name*/) const override {
    return {.lock = nullptr, .problem = "a processor's clock is not set"};
  }
  void close() override {}

 private:
  tier::TierRates measured_rates(const tier::OffloadStoreOptions& options) override {
    return tier::measure_rates(options);
  }

  comm::Channel& control_;
  tier::MemoryAccount& memory_;
};

}  // namespace

std::unique_ptr<RankDevice> open_rank_device(const config::JobSpec& job, comm::Channel& control,
                                             int stages) {
  if (job.device == "cuda") return open_rank_gpu(job, control, stages);
  return std::make_unique<RankCpu>(control);
}

}  // namespace trireme::ranks
