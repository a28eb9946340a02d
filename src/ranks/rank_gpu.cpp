// SPDX-License-Identifier: Apache-2.0
#include "rank_gpu.h"

#include "trireme/chain/platform.h"
#include "trireme/comm/host.h"
#include "trireme/comm/link.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/device/cuda_library.h"
#include "trireme/ranks/signals.h"
#include "trireme/runtime/links.h"
#include "trireme/runtime/warm_up.h"

#include <ATen/ATen.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace trireme::ranks {
namespace {

/// Number of lower ranks on the same machine.
int local_rank(comm::Channel& channel);
std::string process_name();
/// What NCCL is told to use as the machine's name; empty where that is not set.
std::string host_for_nccl();
bool has_twins(std::vector<std::string> names);
/// The statistics of the device's allocator, one object for all ranks of this process.
std::shared_ptr<tier::DeviceMemory> memory_of(device::CudaPart& part);
/// Rates of a tier that is pinned memory or a file alone.
tier::TierRates rates_of(device::CudaPart& part, const tier::OffloadStoreOptions& options);

class RankGpu final : public RankDevice {
 public:
  RankGpu(const config::JobSpec& job, comm::Channel& control, int stages);

  const device::Place& place() const override { return part_; }
  comm::Channel& channel() override { return nccl_ ? *nccl_ : *staged_; }
  tier::DeviceMemory& memory() override { return *memory_; }
  Bytes total_memory() const override { return part_.total_memory(); }
  Bytes default_budget() const override { return default_budget_; }
  void connect(std::span<const comm::Link> links) override {
    if (nccl_) nccl_->connect(links);
  }
  void begin_run(Bytes budget) override;
  Bytes plannable(Bytes budget) const override;
  Bytes budget_for(Bytes planned) const override { return memory_->budget_for(planned); }
  bool measures_beside_others() const override { return !shares_allocator_; }
  std::function<std::unique_ptr<tier::ValueCopies>()> copies_to(
      const tier::OffloadStoreOptions& options) override {
    return [this, options] { return part_.make_copies(options); };
  }
  std::function<record::DeviceReserves()> reserves() override;
  std::string counter() const override { return part_.unique_id(); }
  std::unique_ptr<device::Meter> open_meter() const override {
    return device::open_nvml(part_.uuid());
  }
  device::ClockLocking lock_clock(const std::string& name) const override;
  void close() override;

 private:
  tier::TierRates measured_rates(const tier::OffloadStoreOptions& options) override {
    return tier::slower_rates(
        options, [this](const tier::OffloadStoreOptions& one) { return rates_of(part_, one); });
  }
  void learn_sharing();
  void open_channels(int stages);
  /// The part of begin_run() that needs all ranks to be idle.
  void allow(Bytes budget);
  Bytes free_share() const;

  const config::JobSpec& job_;
  comm::Channel& control_;
  device::CudaPart& part_;
  std::unique_ptr<comm::Channel> staged_;
  std::unique_ptr<comm::LinkedChannel> nccl_;
  std::shared_ptr<tier::DeviceMemory> memory_;
  int ranks_on_gpu_ = 1;           ///< ranks that share this rank's GPU
  bool shares_allocator_ = false;  ///< with another rank of this process
  bool shares_gpu_ = false;        ///< any two ranks of the job do
  bool nccl_refuses_ = false;      ///< two of those look to NCCL like ranks of one machine
  Bytes default_budget_;
};

device::CudaPart& part_for(comm::Channel& control) {
  device::CudaLibrary& library = device::load_cuda();
  return library.open(local_rank(control) % library.devices());
}

RankGpu::RankGpu(const config::JobSpec& job, comm::Channel& control, int stages)
    : job_(job), control_(control), part_(part_for(control)) {
  part_.use();
  learn_sharing();
  open_channels(stages);
  runtime::warm_up(part_);
  comm::barrier(control_, comm::everyone(control_), "warm-up of the GPUs");
  memory_ = memory_of(part_);  // all ranks that share it have their workspaces already
  default_budget_ = shares_allocator_ ? Bytes(0) : free_share();
}

void RankGpu::learn_sharing() {
  const std::string mine = concat(part_.unique_id(), "\n", process_name(), "\n", host_for_nccl());
  std::vector<std::string> gpus, processes, for_nccl;  // the latter two with their GPU
  for (const std::string& seat :
       comm::all_gather(control_, comm::everyone(control_), mine, "exchange of GPUs")) {
    const std::vector<std::string> of = split(seat, '\n');
    gpus.push_back(of.at(0));
    processes.push_back(concat(of.at(0), " ", of.at(1)));
    for_nccl.push_back(concat(of.at(0), " ", of.at(2)));
  }
  const auto count_like_mine = [this](const std::vector<std::string>& all) {
    const auto rank = static_cast<std::size_t>(control_.rank());
    return static_cast<int>(std::count(all.begin(), all.end(), all.at(rank)));
  };
  ranks_on_gpu_ = count_like_mine(gpus);
  shares_allocator_ = count_like_mine(processes) > 1;
  shares_gpu_ = has_twins(gpus);
  nccl_refuses_ = has_twins(for_nccl);
}

void RankGpu::open_channels(int stages) {
  staged_ = part_.make_staged_channel(control_);
  const std::string& transport = job_.pipeline.transport;
  if (transport == "nccl" && nccl_refuses_) {
    throw DeviceError(
        "pipeline.transport is nccl, but ranks share a GPU, which NCCL refuses: start one rank per "
        "GPU, or let transport be auto. For tests NCCL takes ranks of which each has an "
        "NCCL_HOSTID of its own (mpirun -n 1 -x NCCL_HOSTID=a trireme ... : -n 1 -x NCCL_HOSTID=b "
        "trireme ...), over sockets, slower than auto");
  }
  // Over sockets NCCL is slower than pinned memory: used only if asked for by name.
  const bool takes_nccl = transport == "nccl" || (transport == "auto" && !shares_gpu_);
  if (!takes_nccl || control_.size() == 1) return;
  nccl_ = part_.make_channel(*staged_,
                             {.timeout = job_.pipeline.timeout, .stop_requested = stop_requested});
  nccl_->connect(
      runtime::links_to_measure(control_.size(), stages));  // needed before there is a plan
}

Bytes RankGpu::free_share() const {
  // Kept back for links that are connected later, and for what libraries load at their first use.
  constexpr std::int64_t kShareKeptBack = 32;
  const Bytes share = (total_memory() - part_.taken_by_others()) / ranks_on_gpu_;
  return share - share / kShareKeptBack;
}

void RankGpu::begin_run(Bytes budget) {
  // A process releases the cached memory of all its GPUs: no rank may have work under way then.
  const auto meet = [this] {
    comm::barrier(control_, comm::everyone(control_), "begin of the run");
  };
  part_.finish_work();
  meet();
  allow(budget);
  meet();
}

void RankGpu::allow(Bytes budget) {
  part_.give_back_unused();
  memory_->reset_peak();
  if (budget == Bytes(0)) return;
  if (shares_allocator_) {
    job_.fail("memory.device_budget",
              "is set, but ranks that are threads of one process share a GPU and its allocator: "
              "start them with mpirun, so that each has its own budget");
  }
  const Bytes others = part_.taken_by_others();
  if (budget > total_memory() - others) {
    job_.fail("memory.device_budget",
              concat("is ", to_text(budget), ", but of the ", to_text(total_memory()), " of GPU ",
                     part_.index(), " ", to_text(others),
                     " are taken already, by contexts, NCCL or other processes: at most ",
                     to_text(total_memory() - others), " can be had"));
  }
  memory_->set_budget(budget);
}

Bytes RankGpu::plannable(Bytes budget) const {
  if (budget == Bytes(0)) return budget;
  return std::max(Bytes(1), memory_->for_tensors(budget));
}

std::function<record::DeviceReserves()> RankGpu::reserves() {
  return [this] {
    return record::DeviceReserves{.allocator = memory_->peak_reserved(),
                                  .workspaces = memory_->held_before(),
                                  .others = part_.taken_by_others(),
                                  .gathered = memory_->gathered()};
  };
}

device::ClockLocking RankGpu::lock_clock(const std::string& name) const {
  if (ranks_on_gpu_ > 1)
    return {.lock = nullptr, .problem = "several ranks of the job share the GPU"};
  return device::lock_clock(part_.uuid(), chain::megahertz_of(name).value());
}

void RankGpu::close() {
  memory_.reset();
  if (nccl_) nccl_->close();
  nccl_.reset();
  staged_->close();
  staged_.reset();
}

}  // namespace

std::unique_ptr<RankDevice> open_rank_gpu(const config::JobSpec& job, comm::Channel& control,
                                          int stages) {
  return std::make_unique<RankGpu>(job, control, stages);
}

namespace {

int local_rank(comm::Channel& channel) {
  const std::string mine = comm::host_name();
  const std::vector<std::string> hosts =
      comm::all_gather(channel, comm::everyone(channel), mine, "exchange of host names");
  return static_cast<int>(std::count(hosts.begin(), hosts.begin() + channel.rank(), mine));
}

std::string process_name() {
  return concat(comm::host_name(), "/", getpid());
}

std::string host_for_nccl() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): all ranks have loaded CUDA, no thread sets anything now
  const char* const name = std::getenv("NCCL_HOSTID");
  return name == nullptr ? "" : name;
}

bool has_twins(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return std::adjacent_find(names.begin(), names.end()) != names.end();
}

std::shared_ptr<tier::DeviceMemory> memory_of(device::CudaPart& part) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<tier::DeviceMemory>> opened;
  const std::lock_guard lock(mutex);
  auto memory = opened[part.index()].lock();
  if (!memory) {
    memory = part.open_memory(concat("GPU ", part.index()));
    opened[part.index()] = memory;
  }
  return memory;
}

BytesPerSecond median_rate(const std::deque<tier::CopyLane::Span>& spans, Bytes size) {
  std::vector<double> seconds;
  for (const tier::CopyLane::Span& span : spans) seconds.push_back(span.time().count());
  std::sort(seconds.begin(), seconds.end());
  return BytesPerSecond(static_cast<double>(size.count()) / seconds[seconds.size() / 2]);
}

tier::TierRates rates_of(device::CudaPart& part, const tier::OffloadStoreOptions& options) {
  constexpr int kRounds = 5;
  const Bytes size = options.host + options.disk;
  const auto copies = part.make_copies(options);
  const at::Tensor sample =
      at::zeros({size.count()}, at::TensorOptions(at::kByte).device(part.device()));
  for (int round = 0; round < kRounds; ++round) {
    const tier::ValueCopies::Key key{.tape = false, .layer = 1, .micro_batch = round};
    copies->offload(key, {sample.storage()});
    copies->release_next();
    copies->prefetch(key);
    copies->begin_next();
    copies->await(key);
  }
  copies->drain();
  const tier::ValueCopies::Spans spans = copies->take_spans();
  return {.out = median_rate(spans.out, size), .in = median_rate(spans.in, size)};
}

}  // namespace
}  // namespace trireme::ranks
