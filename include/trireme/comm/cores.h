// Cores of the ranks: which of them a rank may use, with whom it shares them, and how many threads
// it computes with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::comm {

/// CPU time that the processes of a control group have together: so many cores' worth.
struct CpuQuota {
  std::string group;
  double cores = 0;

  bool operator==(const CpuQuota&) const = default;
};

/// A number of threads that the environment asks for.
struct WantedThreads {
  std::string variable;  ///< with its value: "OMP_NUM_THREADS=1"
  int count = 0;

  bool operator==(const WantedThreads&) const = default;
};

/// What a rank's process may compute with.
struct RankCores {
  std::string host;
  std::vector<int> cores = {};  ///< rising; the hardware threads of a core are one
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

/// The same number for every rank, on which bits depend: `of_job` if the job says one, else the
/// least that a rank's environment asks for or its cores give. A rank's cores are divided by the
/// ranks of its host that may use any of them, a quota by the ranks that have it; a part of a core
/// counts as none, and every rank has one thread.
RankThreads threads_of_ranks(std::optional<int> of_job, std::span<const RankCores> ranks);

/// Whether ranks that share cores or a quota with `rank`, of `threads` threads each, have fewer
/// cores than threads.
bool is_crowded(std::span<const RankCores> ranks, int rank, int threads);

/// As LibTorch reads them: MKL_NUM_THREADS, else the first number of OMP_NUM_THREADS; what is no
/// positive number counts as not set. `value_of` is null where a variable is not set.
std::optional<WantedThreads> wanted_threads(
    const std::function<const char*(const char*)>& value_of);

/// Quotas of a process's control group and of all above it, of versions 1 and 2. `groups` and
/// `mounts` are the texts of /proc/self/cgroup and /proc/self/mountinfo; `read` gives a file's
/// text, an empty one where there is none.
std::vector<CpuQuota> cpu_quotas(std::string_view groups, std::string_view mounts,
                                 const std::function<std::string(const std::string&)>& read);

/// Of this process.
RankCores own_cores();

/// As one line of text, and back.
std::string to_text(const RankCores& cores);
RankCores read_cores(const std::string& text);

}  // namespace trireme::comm
