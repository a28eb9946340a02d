// Launches the ranks of a job: transport, number of ranks, threads of each; an error of one rank
// ends all.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/comm/cores.h"
#include "trireme/config/job.h"
#include "trireme/ranks/rank_context.h"

#include <functional>
#include <string>

namespace trireme::ranks {

/// What becomes of the error of a job whose ranks are threads of this process.
enum class LocalErrors { kPrinted, kThrown };

/// Runs `body` on every rank of the job: ranks of mpirun, or threads of this process. Returns the
/// exit code, after having printed the error if there was one (prefix "trireme: ") and is not
/// thrown. An error on one rank ends the waits of all others.
int launch(const config::JobSpec& job, const std::function<void(const RankContext&)>& body,
           LocalErrors errors = LocalErrors::kPrinted);

/// Ranks per pipeline for a job on `ranks` ranks, all of them where the shape is open. Throws
/// InputError where stages x replicas cannot be that many.
int stages_for(const config::JobSpec& job, int ranks);

/// Threads of every rank's operators where `ranks` ranks share the cores that this process may use.
comm::RankThreads threads_per_rank(const config::JobSpec& job, int ranks);

/// Whether this process is the one that prints: rank 0 of a launcher, or not under one. Loads no
/// MPI.
bool is_speaker();

/// The exit code for the exception being handled; its message goes to standard error if `speak`.
int exit_code_of_current_exception(bool speak, const std::string& prefix);

}  // namespace trireme::ranks
