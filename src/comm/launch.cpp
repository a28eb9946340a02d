// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/launch.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

namespace trireme::comm {

Launch read_launch(const std::function<const char*(const char* name)>& value_of) {
  // The first that is set. A launcher may itself have been started by another one, such as the
  // daemons of mpirun by srun: the inner one's variables come first.
  const auto number = [&](std::initializer_list<const char*> names, int fallback) {
    for (const char* const name : names)
      if (const char* const text = value_of(name)) return std::atoi(text);
    return fallback;
  };
  const auto any_is_set = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(),
                       [&](const char* name) { return value_of(name) != nullptr; });
  };
  Launch launch;
  launch.connected = any_is_set({"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMI_FD",
                                 "PMIX_RANK", "PMIX_NAMESPACE", "MV2_COMM_WORLD_SIZE"});
  if (launch.connected) {
    // Slurm's PMIx says the number of processes by a variable of Slurm alone.
    launch.ranks = number(
        {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}, 1);
    launch.rank =
        number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"}, 0);
    launch.rank_on_host = number({"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                  "MV2_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"},
                                 launch.rank);
  } else {
    launch.ranks = number({"SLURM_STEP_NUM_TASKS"}, 1);
    launch.rank = number({"SLURM_PROCID"}, 0);
    launch.rank_on_host = number({"SLURM_LOCALID"}, launch.rank);
  }
  launch.ranks = std::max(1, launch.ranks);
  return launch;
}

Launch own_launch() {
  return read_launch([](const char* name) -> const char* {
    return std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no thread sets any
  });
}

}  // namespace trireme::comm
