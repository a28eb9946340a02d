// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/cores.h"

#include "trireme/core/text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace trireme::comm {
namespace {

/// The number of threads of one rank if the job does not set it.
RankThreads threads_of_rank(std::span<const RankCores> ranks, const RankCores& own);

/// Ranks of `own`'s host that may use one of its cores, itself included.
std::size_t sharers(std::span<const RankCores> ranks, const RankCores& own);
std::size_t sharers(std::span<const RankCores> ranks, const RankCores& own, const CpuQuota& quota);

bool meet(const std::vector<int>& a, const std::vector<int>& b);

/// "4 cores by 2 ranks".
std::string shared(std::string_view what, std::size_t ranks) {
  return ranks == 1 ? std::string(what) : concat(what, " by ", ranks, " ranks");
}

}  // namespace

RankThreads threads_of_ranks(std::optional<int> of_job, std::span<const RankCores> ranks) {
  if (of_job) {
    const auto& wanted = ranks.front().wanted;
    const bool differs = wanted && wanted->count != *of_job;
    return {*of_job, differs ? concat("the job's, not ", wanted->variable) : "the job's"};
  }
  RankThreads least;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankThreads own = threads_of_rank(ranks, ranks[r]);
    if (r == 0) {
      least = own;
    } else if (own.count < least.count) {
      least = {own.count, concat("rank ", r, ": ", own.why)};
    }
  }
  return least;
}

bool is_crowded(std::span<const RankCores> ranks, int rank, int threads) {
  const RankCores& own = ranks[static_cast<std::size_t>(rank)];
  std::vector<int> cores;
  for (const RankCores& other : ranks) {
    if (other.host == own.host && meet(other.cores, own.cores))
      cores.insert(cores.end(), other.cores.begin(), other.cores.end());
  }
  std::sort(cores.begin(), cores.end());
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  const auto wanted = [&](std::size_t sharing) {
    return sharing * static_cast<std::size_t>(threads);
  };
  if (wanted(sharers(ranks, own)) > std::max<std::size_t>(1, cores.size())) return true;
  return std::any_of(own.quotas.begin(), own.quotas.end(), [&](const CpuQuota& quota) {
    return static_cast<double>(wanted(sharers(ranks, own, quota))) > quota.cores;
  });
}

namespace {

RankThreads threads_of_rank(std::span<const RankCores> ranks, const RankCores& own) {
  RankThreads threads;
  if (own.wanted) {
    threads = {own.wanted->count, own.wanted->variable};
  } else {
    const std::size_t sharing = sharers(ranks, own),
                      cores = std::max<std::size_t>(1, own.cores.size());
    threads = {static_cast<int>(std::max<std::size_t>(1, cores / sharing)),
               shared(count_of(cores, "core"), sharing)};
    for (const CpuQuota& quota : own.quotas) {
      const std::size_t having = sharers(ranks, own, quota);
      const int share = std::max(
          1, static_cast<int>(std::min(quota.cores / static_cast<double>(having), 4096.0)));
      if (share < threads.count || quota.cores < static_cast<double>(having))
        threads = {std::min(share, threads.count),
                   shared(concat("a quota of ", quota.cores, " cores"), having)};
    }
  }
  if (own.most && *own.most < threads.count)
    threads = {*own.most, concat("OMP_THREAD_LIMIT=", *own.most)};
  return threads;
}

std::size_t sharers(std::span<const RankCores> ranks, const RankCores& own) {
  const auto count = std::count_if(ranks.begin(), ranks.end(), [&](const RankCores& other) {
    return other.host == own.host && meet(other.cores, own.cores);
  });
  return std::max<std::size_t>(1, static_cast<std::size_t>(count));
}

std::size_t sharers(std::span<const RankCores> ranks, const RankCores& own, const CpuQuota& quota) {
  const auto count = std::count_if(ranks.begin(), ranks.end(), [&](const RankCores& other) {
    return other.host == own.host &&
           std::any_of(other.quotas.begin(), other.quotas.end(),
                       [&](const CpuQuota& one) { return one.group == quota.group; });
  });
  return std::max<std::size_t>(1, static_cast<std::size_t>(count));
}

bool meet(const std::vector<int>& a, const std::vector<int>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](int core) { return std::binary_search(b.begin(), b.end(), core); });
}

}  // namespace
}  // namespace trireme::comm
