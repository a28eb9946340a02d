// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/text.h"
#include "trireme/ranks/launch.h"
#include "trireme/ranks/mpi_launch.h"

namespace trireme::ranks {

int launched_ranks() {
  return 1;
}

std::string unconnected_ranks() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    if (const int count = int_from_environment(name, 1); count > 1)
      return concat(count,
                    " processes were started, but this build has no MPI, and each would do the "
                    "whole job: configure with -DTRIREME_MPI=ON, or start one");
  }
  return "";
}

int launch_mpi(const config::JobSpec& job,
               const std::function<void(comm::Channel&, int)>& /*body*/) {
  job.fail("pipeline.transport",
           "is mpi, but this build has no MPI: configure with -DTRIREME_MPI=ON");
}

int fail_to_launch() {
  return exit_code_of_current_exception(is_speaker(), "");
}

}  // namespace trireme::ranks
