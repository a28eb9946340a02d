// CPU cores of the ranks: which cores a rank may use, which ranks it shares them with, and how many
// threads it computes with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::comm {

/// CPU quota that the processes of a control group (cgroup) share, in cores.
struct CpuQuota {
  std::string group;
  double cores = 0;

  bool operator==(const CpuQuota&) const = default;
};

/// A number of threads that an environment variable asks for.
struct WantedThreads {
  std::string variable;  ///< with its value: "OMP_NUM_THREADS=1"
  int count = 0;

  bool operator==(const WantedThreads&) const = default;
};

/// The CPU resources of a rank's process.
struct RankCores {
  std::string host;
  std::vector<int> cores = {};  ///< ascending; hardware threads of one core count once
  std::vector<CpuQuota> quotas = {};
  std::optional<WantedThreads> wanted = {};
  std::optional<int> most = {};  ///< OMP_THREAD_LIMIT

  bool operator==(const RankCores&) const = default;
};

struct RankThreads {
  int count = 1;
  std::string why;  ///< "4 cores by 2 ranks"

  bool operator==(const RankThreads&) const = default;
};

/// The number of threads per rank, equal for all ranks because results depend on it bit by bit:
/// `of_job` if the job sets it, else the minimum over ranks of what a rank's environment asks for
/// or its cores allow. A rank's cores are divided by the ranks of its host that may use any of
/// them, a quota by the ranks under it, rounding down; every rank has at least one thread.
RankThreads threads_of_ranks(std::optional<int> of_job, std::span<const RankCores> ranks);

/// Whether ranks that share cores or a quota with `rank`, of `threads` threads each, have fewer
/// cores than threads.
bool is_crowded(std::span<const RankCores> ranks, int rank, int threads);

/// Thread count from the environment, as LibTorch reads it: MKL_NUM_THREADS, else the first number
/// of OMP_NUM_THREADS; anything but a positive number counts as not set. `value_of` returns null if
/// a variable is not set.
std::optional<WantedThreads> wanted_threads(
    const std::function<const char*(const char*)>& value_of);

/// Quotas of a process's control group and all its ancestors, for cgroup versions 1 and 2. `groups`
/// and `mounts` are the texts of /proc/self/cgroup and /proc/self/mountinfo; `read` returns a
/// file's text, empty if the file does not exist.
std::vector<CpuQuota> cpu_quotas(std::string_view groups, std::string_view mounts,
                                 const std::function<std::string(const std::string&)>& read);

/// The CPU resources of this process.
RankCores own_cores();

/// Serialization to one string, and back.
std::string to_text(const RankCores& cores);
RankCores read_cores(const std::string& text);

}  // namespace trireme::comm
