// SPDX-License-Identifier: Apache-2.0
#include "launch.h"
#include "mpi_launch.h"

namespace trireme::app {

int launched_ranks() {
  return 1;
}

int launch_mpi(const config::JobSpec& job,
               const std::function<void(comm::Channel&, int)>& /*body*/) {
  job.fail("pipeline.transport",
           "is mpi, but this build has no MPI: configure with -DTRIREME_MPI=ON");
}

int fail_to_launch() {
  return exit_code_of_current_exception(is_speaker(), "");
}

}  // namespace trireme::app
