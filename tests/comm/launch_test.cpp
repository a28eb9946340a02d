// Environments as the launchers make them: printed by Open MPI 4.1.4 and by Hydra of MPICH 4.0.2
// (each rank running `env`), and of Slurm as its manual (srun, "OUTPUT ENVIRONMENT VARIABLES") and
// its plugins for PMI-2 and PMIx give them.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/launch.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace trireme::comm {
namespace {

using Variables = std::map<std::string, std::string>;

Launch launch_in(const Variables& variables) {
  return read_launch([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Launch, WithoutALauncherIsOneProcess) {
  EXPECT_EQ(launch_in({{"HOME", "/root"}}), (Launch{}));
}

TEST(Launch, ByOpenMpiHasRankAndPlaceOnTheHost) {
  const Variables variables{{"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_RANK", "3"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"PMIX_RANK", "3"},
                            {"PMIX_NAMESPACE", "2936930305"}};
  EXPECT_EQ(launch_in(variables),
            (Launch{.connected = true, .ranks = 4, .rank = 3, .rank_on_host = 1}));
}

TEST(Launch, ByHydraHasRankAndPlaceOnTheHost) {
  const Variables variables{{"PMI_FD", "8"},
                            {"PMI_SIZE", "4"},
                            {"PMI_RANK", "3"},
                            {"MPI_LOCALNRANKS", "2"},
                            {"MPI_LOCALRANKID", "1"}};
  EXPECT_EQ(launch_in(variables),
            (Launch{.connected = true, .ranks = 4, .rank = 3, .rank_on_host = 1}));
}

TEST(Launch, BySlurmIsConnectedThroughPmixOrPmi2Alone) {
  const Variables task{
      {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "1"}};
  const Launch launch{.connected = true, .ranks = 4, .rank = 3, .rank_on_host = 1};

  Variables pmix = task;
  pmix.insert({{"PMIX_RANK", "3"}, {"PMIX_NAMESPACE", "slurm.pmix.7.0"}});
  EXPECT_EQ(launch_in(pmix), launch);

  Variables pmi2 = task;
  pmi2.insert({{"PMI_FD", "9"}, {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}});
  EXPECT_EQ(launch_in(pmi2), launch);

  Launch apart = launch;
  apart.connected = false;
  EXPECT_EQ(launch_in(task), apart);
}

// The daemons of mpirun and mpiexec are themselves tasks of srun there, one per machine.
TEST(Launch, InsideAnAllocationOfSlurmIsThatOfMpirun) {
  Variables variables{{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}, {"SLURM_LOCALID", "0"}};
  variables.insert({{"OMPI_COMM_WORLD_SIZE", "8"},
                    {"OMPI_COMM_WORLD_RANK", "5"},
                    {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                    {"PMIX_RANK", "5"}});
  EXPECT_EQ(launch_in(variables),
            (Launch{.connected = true, .ranks = 8, .rank = 5, .rank_on_host = 1}));
}

}  // namespace
}  // namespace trireme::comm
