// SPDX-License-Identifier: Apache-2.0
#include "trireme/prepare/job_platform.h"

#include "measured_links.h"

#include "trireme/core/text.h"
#include "trireme/ranks/host.h"
#include "trireme/ranks/rank_kinds.h"
#include "trireme/runtime/links.h"
#include "trireme/runtime/position.h"
#include "trireme/tier/rates.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

namespace trireme::prepare {
namespace {

/// Buffers that the transport holds for every pair of ranks and direction in addition to the
/// program's own values: the receive that is posted ahead (trireme/runtime/boundary.h).
constexpr double kChannelBuffers = 1;

Bytes bytes_of(const config::MemorySize& size, Bytes whole);
/// Folder of the offload tier's file.
std::filesystem::path disk_folder(const config::JobSpec& job);
Bytes free_disk(const config::JobSpec& job, const std::filesystem::path& folder);
/// Collective: what plans may take of the budgets of `ranks` ranks, as each rank computes for its
/// own device; for ranks that are not here as rank 0 would have it.
std::vector<Bytes> plannable_budgets(const config::JobSpec& job, const ranks::RankContext& context,
                                     int ranks);

struct TierSizes {
  Bytes host, disk;
};
/// Collective: for the ranks that are here, the smallest size among each kind of machine, because
/// the free share of a disk changes over time.
std::vector<TierSizes> offload_sizes(const ranks::RankKinds& kinds,
                                     const ranks::RankContext& context,
                                     const tier::OffloadStoreOptions& offload);
/// Collective: for the ranks that are here, measured by the first one on each kind of machine.
std::vector<tier::TierRates> offload_rates(const ranks::RankKinds& kinds,
                                           const ranks::RankContext& context,
                                           const tier::OffloadStoreOptions& offload);

/// Collective: the link between replicas, the slowest of all.
chain::LinkSpec measured_replicas(const ranks::RankContext& context, int stages, int replicas);

}  // namespace

chain::Platform job_platform(const config::JobSpec& job, const ranks::RankContext& context,
                             int stages, int replicas) {
  const std::size_t budgets = job.memory.device_budget.size();
  if (budgets > 1 && std::cmp_not_equal(budgets, stages * replicas))
    job.fail("memory.device_budget", concat("has ", budgets, " entries, must have 1 or ",
                                            stages * replicas, ": one per rank"));
  const auto& speeds = job.pipeline.speeds;
  if (speeds && std::cmp_not_equal(speeds->size(), stages * replicas))
    job.fail("pipeline.speeds", concat("has ", speeds->size(), " entries, must have ",
                                       stages * replicas, ": one per rank"));
  chain::Platform platform = chain::uniform_platform(stages, Bytes(0));
  platform.channel_buffers = kChannelBuffers;
  const tier::OffloadStoreOptions offload = offload_store_of(job);
  const ranks::RankKinds kinds = ranks::rank_kinds(job, context);
  const std::vector<TierSizes> sizes = offload_sizes(kinds, context, offload);
  const std::vector<tier::TierRates> rates = offload_rates(kinds, context, offload);
  const std::vector<Bytes> plannable = plannable_budgets(job, context, stages * replicas);
  for (int stage = 0; stage < stages; ++stage) {
    chain::RankSpec& rank = platform.ranks[static_cast<std::size_t>(stage)];
    rank.power = job.energy.power;
    rank.clocks = job.energy.clocks;
    for (int replica = 0; replica < replicas; ++replica) {
      const auto of_job = static_cast<std::size_t>(replica * stages + stage);
      const Bytes budget = plannable[of_job];
      if (rank.memory == Bytes(0) || budget < rank.memory) rank.memory = budget;
      const std::size_t here = of_job < rates.size() ? of_job : 0;
      const bool is_first = replica == 0;
      rank.out = is_first ? rates[here].out : std::min(rank.out, rates[here].out);
      rank.in = is_first ? rates[here].in : std::min(rank.in, rates[here].in);
      rank.host = is_first ? sizes[here].host : std::min(rank.host, sizes[here].host);
      rank.disk = is_first ? sizes[here].disk : std::min(rank.disk, sizes[here].disk);
    }
  }
  measure_links(context, platform);
  if (replicas > 1 && context.channel.size() == stages * replicas)
    platform.replica_link = measured_replicas(context, stages, replicas);
  return chain::read_platform(
      io::parse(comm::broadcast(context.channel, comm::everyone(context.channel),
                                chain::to_yaml(platform), "what the ranks have"),
                "platform"));
}

void set_speeds(chain::Platform& platform, const std::vector<double>& speeds, int replicas) {
  const std::size_t stages = platform.ranks.size();
  for (std::size_t stage = 0; stage < stages; ++stage) {
    double slowest = std::numeric_limits<double>::infinity();
    for (std::size_t rank = stage; rank < stages * static_cast<std::size_t>(replicas);
         rank += stages)
      slowest = std::min(slowest, rank < speeds.size() ? speeds[rank] : 1);
    platform.ranks[stage].speed = slowest;
  }
}

Bytes device_budget(const config::JobSpec& job, int rank, const ranks::RankDevice& device) {
  const auto& budgets = job.memory.device_budget;
  if (budgets.empty()) return device.default_budget();
  return bytes_of(budgets.size() == 1 ? budgets[0] : budgets.at(static_cast<std::size_t>(rank)),
                  device.total_memory());
}

tier::OffloadStoreOptions offload_store_of(const config::JobSpec& job) {
  tier::OffloadStoreOptions options;
  options.host = bytes_of(job.memory.host_budget, ranks::machine_memory());
  const config::MemorySize& asked = job.memory.disk_budget;
  if (asked.share <= 0 && asked.bytes == Bytes(0)) return options;
  options.disk_path = disk_folder(job);
  options.disk = bytes_of(asked, asked.share > 0 ? free_disk(job, options.disk_path) : Bytes(0));
  return options;
}

tier::OffloadStoreOptions part_of(tier::OffloadStoreOptions store, Bytes room) {
  store.host = std::min(store.host, room);
  store.disk = std::min(store.disk, room - store.host);
  return store;
}

namespace {

Bytes bytes_of(const config::MemorySize& size, Bytes whole) {
  if (size.share <= 0) return size.bytes;
  return Bytes(static_cast<std::int64_t>(static_cast<double>(whole.count()) * size.share));
}

std::vector<Bytes> plannable_budgets(const config::JobSpec& job, const ranks::RankContext& context,
                                     int ranks) {
  std::vector<std::int64_t> mine;
  for (int rank = 0; rank < ranks; ++rank) {
    mine.push_back(context.device.plannable(device_budget(job, rank, context.device)).count());
  }
  const auto all = comm::all_gather(context.channel, comm::everyone(context.channel), mine,
                                    "budgets of all ranks");
  std::vector<Bytes> budgets;
  for (std::size_t rank = 0; rank < mine.size(); ++rank)
    budgets.emplace_back(all[rank < all.size() ? rank : 0][rank]);
  return budgets;
}

std::vector<TierSizes> offload_sizes(const ranks::RankKinds& kinds,
                                     const ranks::RankContext& context,
                                     const tier::OffloadStoreOptions& offload) {
  const auto all =
      comm::all_gather(context.channel, comm::everyone(context.channel),
                       std::vector{offload.host.count(), offload.disk.count()}, "offload tiers");
  std::vector<TierSizes> sizes;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    TierSizes& least = sizes.emplace_back(TierSizes{Bytes(all[rank][0]), Bytes(all[rank][1])});
    for (std::size_t other = 0; other < all.size(); ++other) {
      if (kinds.machine(other) != kinds.machine(rank)) continue;
      least.host = std::min(least.host, Bytes(all[other][0]));
      least.disk = std::min(least.disk, Bytes(all[other][1]));
    }
  }
  return sizes;
}

std::vector<tier::TierRates> offload_rates(const ranks::RankKinds& kinds,
                                           const ranks::RankContext& context,
                                           const tier::OffloadStoreOptions& offload) {
  const auto first_like = [&](std::size_t rank) {
    std::size_t first = 0;
    while (kinds.machine(first) != kinds.machine(rank)) ++first;
    return first;
  };
  std::vector<tier::TierRates> mine(1);
  const auto here = static_cast<std::size_t>(context.channel.rank());
  if (first_like(here) == here) mine.front() = context.device.offload_rates(offload);
  const auto all = comm::all_gather(context.channel, comm::everyone(context.channel), mine,
                                    "rates of the offload tiers");
  std::vector<tier::TierRates> rates;
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    rates.push_back(all[first_like(rank)].front());
  return rates;
}

chain::LinkSpec measured_replicas(const ranks::RankContext& context, int stages, int replicas) {
  const auto group = [&](int rank) {
    return runtime::Position::of(rank, replicas, stages).replica_group();
  };
  std::vector<comm::Link> links;
  for (int stage = 0; stage < stages; ++stage)
    comm::add_links(links, runtime::replica_links(group(stage)));
  context.device.connect(links);
  return measured_sum(context, group(context.channel.rank()));
}

std::filesystem::path disk_folder(const config::JobSpec& job) {
  if (!job.memory.disk_path.empty()) return job.memory.disk_path;
  std::error_code failure;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(failure);
  if (failure)
    job.fail("memory.disk_path", concat("is not given, and the folder for temporary files (TMPDIR) "
                                        "cannot be used: ",
                                        failure.message(), "; name one"));
  return folder;
}

Bytes free_disk(const config::JobSpec& job, const std::filesystem::path& folder) {
  std::error_code failure;
  const auto space = std::filesystem::space(folder, failure);
  if (failure)
    job.fail("memory.disk_budget", concat("is a share of the disk at ", folder.string(),
                                          ", which cannot be looked at: ", failure.message()));
  return Bytes(static_cast<std::int64_t>(space.available));
}

}  // namespace
}  // namespace trireme::prepare
