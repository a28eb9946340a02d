// Launches ranks under mpirun.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/config/job.h"

#include <functional>
#include <string>

namespace trireme::ranks {

/// Ranks that a launcher started, this one included; 1 without a launcher. Loads no MPI.
int launched_ranks();

/// If a launcher started several processes that cannot reach one another, so that each would do the
/// whole job: a message that says so and what to do. Empty otherwise. Loads no MPI.
std::string unconnected_ranks();

/// Runs `body` on this process's rank, once all ranks are there; returns the exit code (errors
/// printed), or ends all ranks of the job.
int launch_mpi(const config::JobSpec& job,
               const std::function<void(comm::Channel&, int ranks_on_host)>& body);

/// Called instead of launch(), with the exception being handled, by a process that cannot start.
/// Other ranks may be able to: all ranks are told, and rank 0 prints the error. Returns the exit
/// code.
int fail_to_launch();

}  // namespace trireme::ranks
