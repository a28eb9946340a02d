// The ranks of mpirun. Built with or without MPI: without it, asking for MPI is an error that names
// the option.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/channel.h"
#include "trireme/config/job.h"

#include <functional>
#include <string>

namespace trireme::app {

/// Ranks that a launcher started, this one included; 1 without a launcher or without MPI. Needs no
/// MPI call.
int launched_ranks();

/// Where a launcher started several processes of which none knows the others, so that each would do
/// the whole job: that, and what to do. Empty otherwise. Needs no MPI call.
std::string strangers();

/// Runs `body` on this process's rank, once all ranks are there; returns the exit code (errors
/// printed), or ends all ranks of the job.
int launch_mpi(const config::JobSpec& job,
               const std::function<void(comm::Channel&, int ranks_on_host)>& body);

/// In place of launch(), for the exception that is being handled: this process cannot begin. What
/// one rank's machine lacks another's may have: all ranks are told, and rank 0 says it. Returns the
/// exit code.
int fail_to_launch();

}  // namespace trireme::app
