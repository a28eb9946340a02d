// SPDX-License-Identifier: Apache-2.0
#include "trireme/comm/cause.h"
#include "trireme/comm/heartbeat.h"
#include "trireme/comm_mpi/world.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/ranks/launch.h"
#include "trireme/ranks/mpi_launch.h"
#include "trireme/ranks/signals.h"

#include <exception>
#include <iostream>

namespace trireme::ranks {
namespace {

/// Collective, called first. Throws on every rank the error with which one of them could not start.
void meet(comm::Channel& channel, const std::exception_ptr& failure) {
  const auto fail = [&] {
    require_not_stopped();
    if (!failure) return;
    try {
      std::rethrow_exception(failure);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw Error(words_of(error));
    }
  };
  comm::run_with_heartbeat(channel, fail, "begin of the job");
}

int in_world(const comm::ChannelOptions& options,
             const std::function<void(comm::Channel&, int)>& body) {
  comm::MpiWorld world = comm::MpiWorld::start(options);
  comm::Channel& channel = world.channel();
  try {
    body(channel, world.ranks_on_this_host());
    world.close();
    return 0;
  } catch (const std::exception& error) {
    world.end_job(error, [&](const comm::Cause& cause) {
      if (cause.rank == channel.rank()) {
        exit_code_of_current_exception(true, "");
      } else {
        std::cerr << "trireme: " << comm::RankFailed(cause).what() << std::endl;  // NOLINT: flushed
      }
    });
  }
}

}  // namespace

int launched_ranks() {
  if (!comm::launched_by_mpi()) return 1;
  // srun's PMIx sets only Slurm's variable.
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    if (const int count = int_from_environment(name, 0); count > 0) return count;
  }
  return 1;
}

std::string unconnected_ranks() {
  const int tasks = int_from_environment("SLURM_STEP_NUM_TASKS", 1);
  if (comm::launched_by_mpi() || tasks <= 1) return "";
  return concat(
      "srun started ", tasks,
      " processes that are not connected to one another: start them with srun --mpi=pmix, or "
      "with mpirun in the allocation");
}

int launch_mpi(const config::JobSpec& job, const std::function<void(comm::Channel&, int)>& body) {
  return in_world({.timeout = job.pipeline.timeout, .stop_requested = stop_requested},
                  [&](comm::Channel& channel, int ranks_on_host) {
                    meet(channel, nullptr);
                    body(channel, ranks_on_host);
                  });
}

int fail_to_launch() {
  if (launched_ranks() == 1) return exit_code_of_current_exception(true, "");
  const std::exception_ptr failure = std::current_exception();
  return in_world({.stop_requested = stop_requested},
                  [&](comm::Channel& channel, int /*ranks_on_host*/) { meet(channel, failure); });
}

}  // namespace trireme::ranks
