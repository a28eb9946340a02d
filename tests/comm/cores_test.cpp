// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/cores.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace trireme::comm {
namespace {

std::vector<int> cores(int first, int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

RankCores on(const std::string& host, std::vector<int> which) {
  return {.host = host, .cores = std::move(which)};
}

RankThreads automatic(const std::vector<RankCores>& ranks) {
  return threads_of_ranks(std::nullopt, ranks);
}

TEST(ThreadsOfRanks, DivideTheCoresThatRanksShare) {
  // A machine with eight cores, or the subset that a container, taskset or mpirun leaves.
  EXPECT_EQ(automatic({on("a", cores(0, 8))}), (RankThreads{8, "8 cores"}));
  EXPECT_EQ(automatic(std::vector(3, on("a", cores(0, 8)))),
            (RankThreads{2, "8 cores by 3 ranks"}));
  EXPECT_EQ(automatic(std::vector(2, on("a", cores(0, 2)))).count, 1);
  EXPECT_EQ(automatic(std::vector(4, on("a", {7}))), (RankThreads{1, "1 core by 4 ranks"}));
}

TEST(ThreadsOfRanks, OfRanksWithCoresOfTheirOwnAreThose) {
  EXPECT_EQ(automatic({on("a", cores(0, 4)), on("a", cores(4, 4))}), (RankThreads{4, "4 cores"}));
  EXPECT_EQ(automatic({on("a", cores(0, 4)), on("b", cores(0, 4))}), (RankThreads{4, "4 cores"}));
}

TEST(ThreadsOfRanks, OfTwoSocketsWithTwoRanksEachAreHalfASocket) {
  EXPECT_EQ(automatic({on("a", cores(0, 6)), on("a", cores(6, 6)), on("a", cores(0, 6)),
                       on("a", cores(6, 6))}),
            (RankThreads{3, "6 cores by 2 ranks"}));
}

TEST(ThreadsOfRanks, AreTheLeastOverAllRanks) {
  EXPECT_EQ(automatic({on("a", cores(0, 8)), on("b", cores(0, 2))}),
            (RankThreads{2, "rank 1: 2 cores"}));
}

TEST(ThreadsOfRanks, DivideWhatOverlapsAsIfItWereTheSame) {
  EXPECT_EQ(automatic({on("a", cores(0, 8)), on("a", cores(6, 8))}).count, 4);
  EXPECT_EQ(automatic({on("a", cores(0, 8)), on("a", cores(0, 2)), on("a", cores(2, 2))}).count, 1);
}

TEST(ThreadsOfRanks, AreWithinAQuotaThatRanksShare) {
  RankCores half = on("a", cores(0, 8)), three = half;
  half.quotas = {{"/g", 0.5}};
  three.quotas = {{"/g/inner", 3.5}, {"/g", 6}};
  EXPECT_EQ(automatic({half}), (RankThreads{1, "a quota of 0.5 cores"}));
  EXPECT_EQ(automatic({three}), (RankThreads{3, "a quota of 3.5 cores"}));
  EXPECT_EQ(automatic({three, three}), (RankThreads{1, "a quota of 3.5 cores by 2 ranks"}));
  // Containers of one machine, with a quota above them.
  RankCores other = three;
  other.quotas = {{"/g/other", 8}, {"/g", 6}};
  EXPECT_EQ(automatic({other, three}), (RankThreads{3, "a quota of 6 cores by 2 ranks"}));
}

TEST(ThreadsOfRanks, AreThoseOfTheVariableWhereTheJobSaysNothing) {
  RankCores one = on("a", cores(0, 8)), many = one;
  one.wanted = WantedThreads{"OMP_NUM_THREADS=1", 1};
  many.wanted = WantedThreads{"OMP_NUM_THREADS=16", 16};
  EXPECT_EQ(automatic({one}), (RankThreads{1, "OMP_NUM_THREADS=1"}));
  EXPECT_EQ(automatic({many}), (RankThreads{16, "OMP_NUM_THREADS=16"}));
  EXPECT_EQ(automatic({on("a", cores(0, 8)), one}), (RankThreads{1, "rank 1: OMP_NUM_THREADS=1"}));
  EXPECT_EQ(threads_of_ranks(3, std::vector{one}),
            (RankThreads{3, "the job's, not OMP_NUM_THREADS=1"}));
  EXPECT_EQ(threads_of_ranks(3, std::vector{on("a", cores(0, 2))}), (RankThreads{3, "the job's"}));
  many.most = 4;
  EXPECT_EQ(automatic({many}), (RankThreads{4, "OMP_THREAD_LIMIT=4"}));
}

TEST(IsCrowded, CountsThreadsOnTheCoresThatRanksShare) {
  const std::vector<RankCores> shared(2, on("a", cores(0, 4)));
  EXPECT_FALSE(is_crowded(shared, 0, 2));
  EXPECT_TRUE(is_crowded(shared, 0, 3));
  const std::vector<RankCores> apart{on("a", cores(0, 4)), on("a", cores(4, 4))};
  EXPECT_FALSE(is_crowded(apart, 1, 4));
  RankCores half = on("a", cores(0, 4));
  half.quotas = {{"/g", 0.5}};
  EXPECT_TRUE(is_crowded(std::vector{half}, 0, 1));
}

/// Environment variables as getenv() returns them.
std::optional<WantedThreads> wanted(const std::map<std::string, std::string>& variables) {
  return wanted_threads([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(WantedThreads, AreReadAsLibTorchReadsThem) {
  EXPECT_EQ(wanted({}), std::nullopt);
  EXPECT_EQ(wanted({{"OMP_NUM_THREADS", "4"}}), (WantedThreads{"OMP_NUM_THREADS=4", 4}));
  EXPECT_EQ(wanted({{"OMP_NUM_THREADS", "4,2"}})->count, 4);
  EXPECT_EQ(wanted({{"OMP_NUM_THREADS", "4"}, {"MKL_NUM_THREADS", "2"}}),
            (WantedThreads{"MKL_NUM_THREADS=2", 2}));
  for (const char* const none : {"", "0", "-1", "many", "4x"})
    EXPECT_EQ(wanted({{"OMP_NUM_THREADS", none}}), std::nullopt) << none;
}

std::vector<CpuQuota> quotas(const std::string& groups, const std::string& mounts,
                             const std::map<std::string, std::string>& files) {
  return cpu_quotas(groups, mounts, [&](const std::string& file) {
    const auto found = files.find(file);
    return found == files.end() ? std::string() : found->second;
  });
}

// File formats: cgroups(7), proc(5), the kernel's admin-guide/cgroup-v2.rst.
TEST(CpuQuotas, OfVersionTwoAreThoseOfAGroupAndAllAboveIt) {
  const std::string mounts =
      "24 1 0:22 / /proc rw - proc proc rw\n"
      "31 23 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
  EXPECT_EQ(quotas("0::/user.slice/job/step\n", mounts,
                   {{"/sys/fs/cgroup/user.slice/job/step/cpu.max", "max 100000\n"},
                    {"/sys/fs/cgroup/user.slice/job/cpu.max", "150000 100000\n"},
                    {"/sys/fs/cgroup/user.slice/cpu.max", "800000 100000\n"}}),
            (std::vector<CpuQuota>{{"/sys/fs/cgroup/user.slice/job", 1.5},
                                   {"/sys/fs/cgroup/user.slice", 8}}));
  // In a container with a namespace of its own.
  EXPECT_EQ(quotas("0::/\n", mounts, {{"/sys/fs/cgroup/cpu.max", "50000 100000\n"}}),
            (std::vector<CpuQuota>{{"/sys/fs/cgroup", 0.5}}));
}

TEST(CpuQuotas, OfVersionOneAreThoseOfTheHierarchyWithCpu) {
  const std::string mounts =
      "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
      "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n";
  const std::string groups = "4:cpuset:/other\n3:cpu,cpuacct:/batch/one\n0::/\n";
  EXPECT_EQ(quotas(groups, mounts,
                   {{"/sys/fs/cgroup/cpu,cpuacct/batch/one/cpu.cfs_quota_us", "-1\n"},
                    {"/sys/fs/cgroup/cpu,cpuacct/batch/one/cpu.cfs_period_us", "100000\n"},
                    {"/sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_quota_us", "250000\n"},
                    {"/sys/fs/cgroup/cpu,cpuacct/batch/cpu.cfs_period_us", "100000\n"}}),
            (std::vector<CpuQuota>{{"/sys/fs/cgroup/cpu,cpuacct/batch", 2.5}}));
  // A container that sees its own part of the hierarchy, under the host's names.
  EXPECT_EQ(quotas("3:cpu:/docker/abc\n",
                   "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
                   {{"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n"},
                    {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}}),
            (std::vector<CpuQuota>{{"/sys/fs/cgroup/cpu", 0.5}}));
}

TEST(CpuQuotas, AreNoneWhereNothingIsMountedOrReadable) {
  EXPECT_TRUE(quotas("", "", {}).empty());
  EXPECT_TRUE(quotas("0::/a\n", "32 31 0:29 / /sys rw - sysfs sysfs rw\n", {}).empty());
  EXPECT_TRUE(quotas("nonsense\n", "more of it\n", {}).empty());
}

TEST(RankCores, AreTheSameAfterTheirTravel) {
  RankCores full = on("node 1", {0, 3, 64});
  EXPECT_EQ(read_cores(to_text(full)), full);
  full.quotas = {{"/sys/fs/cgroup/a b", 1.0 / 3}, {"/g", 2}};
  full.wanted = WantedThreads{"OMP_NUM_THREADS=4,2", 4};
  full.most = 8;
  EXPECT_EQ(read_cores(to_text(full)), full);
  EXPECT_EQ(read_cores(to_text(own_cores())), own_cores());
}

TEST(OwnCores, AreOneAtLeast) {
  EXPECT_FALSE(own_cores().cores.empty());
  EXPECT_FALSE(own_cores().host.empty());
}

}  // namespace
}  // namespace trireme::comm
